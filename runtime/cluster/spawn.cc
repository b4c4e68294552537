#include "runtime/cluster/spawn.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>

#include "runtime/base/status.h"

namespace headway {
namespace {

// Runs in the child. Never returns. Takes no locks and allocates nothing: another thread of the
// parent may have held the allocator's lock at the fork.
[[noreturn]] void RunChild(const char* program, char* const* argv, std::span<const int> keep_fds,
                           int output_fd, int error_fd, pid_t parent) {
  const auto fail = [error_fd] {
    const int error = errno;
    (void)!write(error_fd, &error, sizeof(error));
    _exit(127);
  };
  // The parent may have died before the death signal was set.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail();
  if (getppid() != parent) _exit(127);
  setsid();
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);  // fails for the few that cannot be changed
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0) fail();
  if (output_fd >= 0) {
    if (dup2(output_fd, STDOUT_FILENO) < 0 || dup2(output_fd, STDERR_FILENO) < 0) fail();
  }
  // Not every library opens its descriptors with close-on-exec. A kernel without the call (before
  // 5.11) leaves them open, which does no harm beyond that.
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  for (int fd : keep_fds) {
    if (fcntl(fd, F_SETFD, 0) < 0) fail();
  }
  execv(program, argv);
  fail();
  _exit(127);
}

}  // namespace

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<Pipe> Pipe::Make() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("making a pipe: ", std::strerror(errno)));
  }
  Pipe pipe{.read_end = UniqueFd(fds[0]), .write_end = UniqueFd(fds[1])};
  fcntl(fds[0], F_SETFL, O_NONBLOCK);
  return pipe;
}

absl::StatusOr<pid_t> SpawnProcess(const SpawnOptions& options) {
  HEADWAY_ASSIGN_OR_RETURN(Pipe error_pipe, Pipe::Make());
  std::string name = "headway";
  std::vector<std::string> args = options.args;
  std::vector<char*> argv = {name.data()};
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("starting ", options.program, ": ", std::strerror(errno)));
  }
  if (pid == 0) {
    RunChild(options.program.c_str(), argv.data(), options.keep_fds, options.output_fd,
             error_pipe.write_end.get(), parent);
  }
  // The child's copy closes when it executes the program.
  error_pipe.write_end = UniqueFd();
  fcntl(error_pipe.read_end.get(), F_SETFL, 0);
  int error = 0;
  ssize_t count;
  do {
    count = read(error_pipe.read_end.get(), &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  if (count == 0) return pid;
  waitpid(pid, nullptr, 0);
  const std::string message =
      absl::StrCat("starting ", options.program, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EACCES) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

int OpenProcess(pid_t pid) {
  // glibc 2.36 declares pidfd_open without C linkage, so it cannot be called from C++.
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

}  // namespace headway
