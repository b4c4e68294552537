#include "runtime/cluster/launcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/cluster/output_tail.h"
#include "runtime/cluster/ready_line.h"
#include "runtime/cluster/spawn.h"

namespace headway {
namespace {

// A ready line is some tens of bytes; a child that writes more without a line feed is broken.
constexpr size_t kMaxReadyLine = 4096;

void Close(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

absl::Status StopAsked() { return absl::CancelledError("asked to stop before all was ready"); }

std::string DescribeExit(int wait_status) {
  if (WIFEXITED(wait_status)) {
    return absl::StrCat("exited with status ", WEXITSTATUS(wait_status));
  }
  return absl::StrCat("was ended by signal ", WTERMSIG(wait_status), " (",
                      strsignal(WTERMSIG(wait_status)), ")");
}

}  // namespace

struct Launcher::Child {
  std::string name;
  pid_t pid = -1;
  int pidfd = -1;
  int ready_fd = -1;   // read end; -1 when nothing more is to come
  int output_fd = -1;  // read end of standard output and error
  std::string ready_line;
  bool ready = false;
  bool reports_ready = true;
  std::optional<OutputTail> output;
  bool stopping = false;
  bool ended = false;
  int wait_status = 0;

  absl::Status EndStatus() const {
    const std::string last_words = output->LastWords(/*lines=*/WIFEXITED(wait_status) ? 1 : 5);
    return absl::UnavailableError(absl::StrCat(name, " ", DescribeExit(wait_status),
                                               last_words.empty() ? "" : ": ", last_words));
  }
};

struct Launcher::Request {
  ChildSpec spec;
  std::optional<absl::StatusOr<int>> result;
};

absl::StatusOr<std::unique_ptr<Launcher>> Launcher::Create(LauncherOptions options) {
  std::unique_ptr<Launcher> launcher(new Launcher(std::move(options)));
  launcher->wake_event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  launcher->failure_event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (launcher->wake_event_ < 0 || launcher->failure_event_ < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("launcher: eventfd: ", std::strerror(errno)));
  }
  launcher->thread_ = std::thread([&launcher = *launcher] { launcher.Loop(); });
  return launcher;
}

Launcher::Launcher(LauncherOptions options) : options_(std::move(options)) {}

Launcher::~Launcher() {
  if (thread_.joinable()) {
    StopAll();
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    Wake();
    thread_.join();
  }
  Close(wake_event_);
  Close(failure_event_);
}

absl::StatusOr<int> Launcher::Start(ChildSpec spec) {
  Request request{.spec = std::move(spec), .result = std::nullopt};
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return request_ == nullptr; });
  request_ = &request;
  Wake();
  changed_.wait(lock, [&request] { return request.result.has_value(); });
  return *std::move(request.result);
}

absl::StatusOr<std::string> Launcher::WaitReady(int child_index, absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  const Child& child = *children_.at(static_cast<size_t>(child_index));
  if (!child.reports_ready) {
    return absl::FailedPreconditionError(
        absl::StrCat(child.name, " was started without a ready line to wait for"));
  }
  changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                    [&] { return child.ready || child.ended || stop_asked_ || !failure_.ok(); });
  if (stop_asked_) return StopAsked();
  if (child.ready) return ParseReadyLine(child.ready_line);
  if (child.ended) return child.EndStatus();
  if (!failure_.ok()) return failure_;
  return absl::DeadlineExceededError(absl::StrCat(child.name, " was not ready after ",
                                                  absl::FormatDuration(timeout),
                                                  "; last it said: ", child.output->LastWords(1)));
}

absl::Status Launcher::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

std::vector<Launcher::Ended> Launcher::TakeFailures() {
  std::lock_guard lock(mutex_);
  uint64_t count;
  (void)!read(failure_event_, &count, sizeof(count));
  failure_ = absl::OkStatus();
  std::vector<Ended> taken;
  for (size_t i = 0; i < children_.size(); ++i) {
    Child& child = *children_[i];
    if (!child.ended || child.stopping) continue;
    child.stopping = true;  // told once
    taken.push_back({static_cast<int>(i), child.EndStatus()});
  }
  return taken;
}

void Launcher::Stop(std::span<const int> indices) { End(indices, options_.grace); }

void Launcher::StopAll() { Stop(All()); }

void Launcher::KillAll() {
  {
    std::lock_guard lock(mutex_);
    stop_asked_ = true;
    changed_.notify_all();
  }
  End(All(), /*grace=*/absl::ZeroDuration());
}

void Launcher::End(std::span<const int> indices, absl::Duration grace) {
  std::unique_lock lock(mutex_);
  const auto signal_all = [&](int signal) {
    for (int index : indices) {
      Child& child = *children_.at(static_cast<size_t>(index));
      child.stopping = true;
      // The pid is ours until OnExit reaps it, under the same lock.
      if (!child.ended) kill(child.pid, signal);
    }
  };
  const auto all_ended = [&] {
    for (int index : indices) {
      if (!children_.at(static_cast<size_t>(index))->ended) return false;
    }
    return true;
  };
  signal_all(SIGTERM);
  if (changed_.wait_for(lock, absl::ToChronoNanoseconds(grace), all_ended)) return;
  signal_all(SIGKILL);
  changed_.wait(lock, all_ended);
}

std::vector<int> Launcher::All() const {
  std::lock_guard lock(mutex_);
  std::vector<int> all(children_.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

pid_t Launcher::pid(int child) const {
  std::lock_guard lock(mutex_);
  return children_.at(static_cast<size_t>(child))->pid;
}

void Launcher::Wake() {
  const uint64_t one = 1;
  // Full means that a wake-up is pending already.
  (void)!write(wake_event_, &one, sizeof(one));
}

// The only thread that starts and reaps. It lives until every child has ended, which matters: the
// kernel sends a child its death signal when the thread that forked it ends.
void Launcher::Loop() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::vector<pollfd> fds;
  while (true) {
    fds.assign(1, pollfd{wake_event_, POLLIN, 0});
    {
      std::lock_guard lock(mutex_);
      if (closing_) return;
      fds.push_back({stop_asked_ ? -1 : options_.stop_fd, POLLIN, 0});
      for (const std::unique_ptr<Child>& child : children_) {
        // A negative descriptor is skipped by poll.
        fds.push_back({child->ended ? -1 : child->pidfd, POLLIN, 0});
        fds.push_back({child->ready_fd, POLLIN, 0});
        fds.push_back({child->output_fd, POLLIN, 0});
      }
    }
    if (poll(fds.data(), fds.size(), /*timeout=*/-1) < 0) continue;  // EINTR alone is possible
    if (fds[0].revents != 0) {
      uint64_t count;
      (void)!read(wake_event_, &count, sizeof(count));
    }
    std::lock_guard lock(mutex_);
    if (fds[1].revents != 0) {
      stop_asked_ = true;
      changed_.notify_all();
    }
    constexpr size_t kBefore = 2;  // descriptors before those of the first child
    for (size_t i = 0; i < (fds.size() - kBefore) / 3; ++i) {
      Child& child = *children_[i];
      const pollfd* const of_child = &fds[kBefore + 3 * i];
      // Output first, so that a child's last words are there when its end is told.
      if (of_child[1].revents != 0) OnReadyReadable(child);
      if (of_child[2].revents != 0) OnOutputReadable(child);
      if (of_child[0].revents != 0) OnExit(child);
    }
    if (request_ != nullptr) ServeRequest();
  }
}

void Launcher::ServeRequest() {
  auto child = std::make_unique<Child>();
  child->name = request_->spec.name;
  child->reports_ready = request_->spec.reports_ready;
  child->output.emplace(options_.forward_output ? STDERR_FILENO : -1);
  const absl::Status status = stop_asked_ ? StopAsked() : Spawn(request_->spec, child.get());
  if (status.ok()) {
    request_->result = static_cast<int>(children_.size());
    children_.push_back(std::move(child));
  } else {
    request_->result = status;
  }
  request_ = nullptr;
  changed_.notify_all();
}

absl::Status Launcher::Spawn(const ChildSpec& spec, Child* child) {
  SpawnOptions spawn{.program = options_.program, .args = spec.args, .keep_fds = spec.inherit_fds};
  absl::StatusOr<Pipe> ready = Pipe{};
  if (spec.reports_ready) {
    ready = Pipe::Make();
    if (!ready.ok()) return Annotate(ready.status(), spec.name);
    spawn.args.push_back("--ready-fd");
    spawn.args.push_back(absl::StrCat(ready->write_end.get()));
    spawn.keep_fds.push_back(ready->write_end.get());
  }
  absl::StatusOr<Pipe> output = Pipe::Make();
  if (!output.ok()) return Annotate(output.status(), spec.name);
  spawn.output_fd = output->write_end.get();
  const absl::StatusOr<pid_t> pid = SpawnProcess(spawn);
  if (!pid.ok()) return Annotate(pid.status(), spec.name);

  child->pid = *pid;
  child->pidfd = OpenProcess(*pid);
  if (child->pidfd < 0) {
    const int error = errno;
    kill(*pid, SIGKILL);
    waitpid(*pid, nullptr, 0);
    return absl::UnavailableError(
        absl::StrCat(spec.name, ": watching process ", *pid, ": ", std::strerror(error)));
  }
  child->ready_fd = ready->read_end.release();
  child->output_fd = output->read_end.release();
  return absl::OkStatus();
}

void Launcher::OnReadyReadable(Child& child) {
  char bytes[512];
  const ssize_t count = read(child.ready_fd, bytes, sizeof(bytes));
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count > 0) child.ready_line.append(bytes, static_cast<size_t>(count));
  const size_t end = child.ready_line.find('\n');
  if (end != std::string::npos) {
    child.ready_line.resize(end);
    child.ready = true;
    changed_.notify_all();
  }
  if (child.ready || count <= 0 || child.ready_line.size() > kMaxReadyLine) Close(child.ready_fd);
}

void Launcher::OnOutputReadable(Child& child) {
  if (!child.output->ReadFrom(child.output_fd)) Close(child.output_fd);
}

void Launcher::OnExit(Child& child) {
  if (waitpid(child.pid, &child.wait_status, WNOHANG) != child.pid) return;
  // What it wrote before it ended is in the pipes; nothing more is waited for, since a descendant
  // may hold them open.
  if (child.ready_fd >= 0 && !child.ready) OnReadyReadable(child);
  while (child.output_fd >= 0 && child.output->ReadFrom(child.output_fd)) {
    pollfd more{child.output_fd, POLLIN, 0};
    if (poll(&more, 1, /*timeout=*/0) != 1) break;
  }
  child.output->Flush();
  Close(child.output_fd);
  Close(child.ready_fd);
  Close(child.pidfd);
  child.ended = true;
  if (!child.stopping && failure_.ok()) {
    failure_ = child.EndStatus();
    const uint64_t one = 1;
    (void)!write(failure_event_, &one, sizeof(one));
  }
  changed_.notify_all();
}

}  // namespace headway
