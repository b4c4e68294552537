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
// are blocked in this thread and in all that it starts from then on. What has come by the time
// this object goes is dropped: whoever had it has ended in its own way.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Readable once a signal has come.
  int fd() const { return fd_; }
  // Takes the signal that has come off the queue. Returns its number; 0 when none has come.
  int Take();
  // Takes the first signal, and lets the calling thread have the next of the same number, which
  // ends the process. Not one of the other: ctrl-C in a terminal reaches every process there, and
  // is followed by the SIGTERM of whoever started this one.
  void TakeFirst();
  // Lets the calling thread have the signals again: the next one ends the process.
  void Unblock();

 private:
  sigset_t signals_;
  int fd_ = -1;
  sigset_t before_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_STOP_SIGNAL_H_
