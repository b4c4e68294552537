#ifndef HEADWAY_RUNTIME_SERVER_REQUEST_THREADS_H_
#define HEADWAY_RUNTIME_SERVER_REQUEST_THREADS_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "absl/status/status.h"

namespace headway {

// A thread for each running request, which may therefore wait. A thread that has ended its task
// takes another one for a while, and ends where none comes. Never more than a limit. Thread-safe.
class RequestThreads {
 public:
  // `limit`: tasks that run at the same time. `idle_seconds`: how long a thread waits for its next
  // task.
  RequestThreads(int limit, double idle_seconds) : limit_(limit), idle_seconds_(idle_seconds) {}
  // Waits for what is running.
  ~RequestThreads();

  // Runs `task` on a thread that does nothing else meanwhile. ResourceExhausted, with nothing done,
  // when `limit` tasks are running or the system gives no thread.
  absl::Status Start(std::function<void()> task);

  // That exist at the moment, idle ones included.
  int threads() const;

 private:
  using Threads = std::list<std::jthread>;  // joined by its destructor
  void Loop(Threads::iterator self);

  const int limit_;
  const std::chrono::duration<double> idle_seconds_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_; each has an idle thread coming
  int running_ = 0;                          // guarded by mutex_; tasks taken and not ended
  bool stopping_ = false;                    // guarded by mutex_
  Threads threads_;                          // guarded by mutex_
  Threads ended_;                            // guarded by mutex_; about to end, to be joined
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_SERVER_REQUEST_THREADS_H_
