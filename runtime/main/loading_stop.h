#ifndef HEADWAY_RUNTIME_MAIN_LOADING_STOP_H_
#define HEADWAY_RUNTIME_MAIN_LOADING_STOP_H_

#include <mutex>
#include <thread>

#include "runtime/cluster/launcher.h"
#include "runtime/main/event.h"
#include "runtime/main/stop_signal.h"

namespace headway {

// Ctrl-C and SIGTERM for a process that does not serve yet and so has nothing to put in order. The
// first such signal ends it, whatever its threads are in: with a log line, after the children in a
// Kills, and by that signal. A second one ends it at once.
class LoadingStop {
 public:
  // `signal` outlives this object. Make one right behind it, before anything that takes time.
  explicit LoadingStop(StopSignal& signal);
  ~LoadingStop();  // as Over
  LoadingStop(const LoadingStop&) = delete;
  LoadingStop& operator=(const LoadingStop&) = delete;

  // From now on signals wait in the StopSignal. Does not return where one has come before.
  void Over();

  // While this lives, a signal ends the launcher's children first. One at a time.
  class Kills {
   public:
    Kills(LoadingStop& loading, Launcher& launcher);
    ~Kills();
    Kills(const Kills&) = delete;
    Kills& operator=(const Kills&) = delete;

   private:
    LoadingStop& loading_;
  };

 private:
  void Watch();

  StopSignal& signal_;
  Event over_;
  std::mutex mutex_;              // held for good once the process is to end
  Launcher* launcher_ = nullptr;  // guarded by mutex_
  std::thread watcher_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_LOADING_STOP_H_
