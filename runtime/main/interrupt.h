#ifndef HEADWAY_RUNTIME_MAIN_INTERRUPT_H_
#define HEADWAY_RUNTIME_MAIN_INTERRUPT_H_

#include <mutex>
#include <string>
#include <thread>

#include "runtime/cluster/call_scope.h"
#include "runtime/main/event.h"
#include "runtime/main/stop_signal.h"

namespace headway {

// Ctrl-C and SIGTERM for a verb that has something to put in order before it ends. The first such
// signal asks it to stop: fd() becomes readable, and calls in a Cancels end. A second one ends the
// process at once. When this object goes, after all that the verb started, the process dies of the
// first signal after all, so that a shell sees what it expects.
//
// Make one before any other thread starts, and before anything that has to be put in order.
class Interrupt {
 public:
  // `words`, unless empty, is what a log line says when the first signal comes.
  explicit Interrupt(std::string words = "");
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Readable, for good, once asked to stop.
  int fd() const { return asked_.fd(); }
  // The signal was the usual way to end: the process lives on.
  void Forgive() { forgiven_ = true; }

  // While this lives, being asked to stop cancels `scope`. One at a time.
  class Cancels {
   public:
    Cancels(Interrupt& interrupt, CallScope& scope);
    ~Cancels();
    Cancels(const Cancels&) = delete;
    Cancels& operator=(const Cancels&) = delete;

   private:
    Interrupt& interrupt_;
  };

 private:
  void Watch();

  const std::string words_;
  StopSignal signal_;
  Event asked_, done_;
  bool forgiven_ = false;
  std::mutex mutex_;
  int number_ = 0;              // guarded by mutex_; of the signal that came, 0: none
  CallScope* scope_ = nullptr;  // guarded by mutex_
  std::thread watcher_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_INTERRUPT_H_
