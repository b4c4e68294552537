#include "runtime/main/stop_signal.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/check.h"

namespace headway {

int WaitReadable(int first, int second) {
  pollfd fds[] = {{.fd = first, .events = POLLIN, .revents = 0},
                  {.fd = second, .events = POLLIN, .revents = 0}};
  for (;;) {
    const int ready = poll(fds, 2, -1);
    if (ready < 0 && errno == EINTR) continue;
    HEADWAY_CHECK(ready > 0);
    return fds[0].revents != 0 ? 0 : 1;
  }
}

StopSignal::StopSignal() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  HEADWAY_CHECK(pthread_sigmask(SIG_BLOCK, &signals_, &before_) == 0);
  fd_ = signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK);
  HEADWAY_CHECK(fd_ >= 0);
}

int StopSignal::Take() {
  signalfd_siginfo info = {};
  (void)!read(fd_, &info, sizeof(info));
  return static_cast<int>(info.ssi_signo);
}

void StopSignal::TakeFirst() {
  const int number = Take();
  if (number == 0) return;
  sigset_t again;
  sigemptyset(&again);
  sigaddset(&again, number);
  pthread_sigmask(SIG_UNBLOCK, &again, nullptr);
}

void StopSignal::Unblock() { pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr); }

StopSignal::~StopSignal() {
  while (Take() != 0) {
  }
  close(fd_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace headway
