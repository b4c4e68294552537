// What the launcher's tests start: a process that does as its first argument says. The launcher
// puts "--ready-fd N" behind the other arguments.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/cluster/launcher.h"
#include "runtime/cluster/ready_line.h"

namespace {

void WaitForSignal() {
  while (true) pause();
}

bool IsOpen(int fd) { return lseek(fd, 0, SEEK_CUR) >= 0 || errno != EBADF; }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string mode = argv[1];
  const std::string argument = argc > 2 ? argv[2] : "";
  const int ready_fd = std::string(argv[argc - 2]) == "--ready-fd" ? std::atoi(argv[argc - 1]) : -1;

  if (mode == "serve") {  // ADDRESS: ready, then until SIGTERM
    (void)headway::WriteReadyLine(ready_fd, argument);
    WaitForSignal();
  } else if (mode == "deaf") {  // ready, then until SIGKILL
    std::signal(SIGTERM, SIG_IGN);
    (void)headway::WriteReadyLine(ready_fd, "deaf");
    WaitForSignal();
  } else if (mode == "silent") {  // never ready
    std::fprintf(stderr, "still loading\n");
    WaitForSignal();
  } else if (mode == "rank") {  // never ready, until SIGKILL; has its parent asked to stop
    std::signal(SIGTERM, SIG_IGN);
    std::fprintf(stderr, "rank is process %d\n", getpid());
    kill(getppid(), SIGTERM);
    WaitForSignal();
  } else if (mode == "fail") {  // MESSAGE: says it and exits with status 3
    std::fprintf(stdout, "to standard output\n");
    std::fflush(stdout);
    std::fprintf(stderr, "first line\n%s\n", argument.c_str());
    return 3;
  } else if (mode == "crash") {
    std::fprintf(stderr, "about to crash\n");
    std::signal(SIGABRT, SIG_DFL);
    std::abort();
  } else if (mode == "garble") {  // a ready line that is not one
    (void)!write(ready_fd, "hello\n", 6);
    WaitForSignal();
  } else if (mode == "flood") {  // endless ready bytes without a line feed
    std::signal(SIGPIPE, SIG_DFL);
    const std::string bytes(1000, 'x');
    while (write(ready_fd, bytes.data(), bytes.size()) > 0) {
    }
  } else if (mode == "fds") {  // KEPT,OTHER: whether each is open, as the address
    int kept = 0, other = 0;
    std::sscanf(argument.c_str(), "%d,%d", &kept, &other);
    const std::string state =
        std::string(IsOpen(kept) ? "open" : "closed") + "," + (IsOpen(other) ? "open" : "closed");
    (void)headway::WriteReadyLine(ready_fd, state);
    WaitForSignal();
  } else if (mode == "node" || mode == "router") {  // ready; what it was told, as the address
    std::string told = mode;
    for (int i = 2; i < argc - 2; ++i) told += std::string(" ") + argv[i];
    if (told.find("--role decode") != std::string::npos &&
        told.find("missing.gguf") != std::string::npos) {
      std::fprintf(stderr, "headway node: missing.gguf: no such file\n");
      return 1;
    }
    (void)headway::WriteReadyLine(ready_fd, told);
    WaitForSignal();
  } else if (mode == "parent") {  // has a child of its own; the address is its process id
    auto launcher = headway::Launcher::Create({});
    const auto child = (*launcher)->Start({.name = "grandchild", .args = {"serve", "x"}});
    if (!child.ok() || !(*launcher)->WaitReady(*child, absl::Seconds(30)).ok()) return 4;
    (void)headway::WriteReadyLine(ready_fd, std::to_string((*launcher)->pid(*child)));
    WaitForSignal();
  }
  return 2;
}
