#ifndef HEADWAY_RUNTIME_MAIN_STOP_SIGNAL_H_
#define HEADWAY_RUNTIME_MAIN_STOP_SIGNAL_H_

#include <csignal>

namespace headway {

// After a signal running requests may end by themselves for this long, on nodes and on routers.
inline constexpr double kDrainSeconds = 30;

// Waits until one of two descriptors is readable; 0 or 1 tells which (0 when both are). A negative
// descriptor is never readable.
int WaitReadable(int first, int second);

// SIGINT and SIGTERM as something to wait for. Make one before any other thread starts: the signals
// are blocked in this thread and in all that it starts from then on.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Readable once a signal has come.
  int fd() const { return fd_; }
  // Takes the signal that has come off the queue, so that it does not end the process once this
  // object is gone. Returns its number.
  int Take();
  // Lets the calling thread have the signals again: the next one ends the process.
  void Unblock();

 private:
  sigset_t signals_;
  int fd_ = -1;
  sigset_t before_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_STOP_SIGNAL_H_
