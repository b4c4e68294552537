#ifndef HEADWAY_RUNTIME_SERVER_REQUEST_THREADS_H_
#define HEADWAY_RUNTIME_SERVER_REQUEST_THREADS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace headway {

// A thread for each running request, which may therefore wait; reused, and never more than a limit.
// Thread-safe.
class RequestThreads {
 public:
  explicit RequestThreads(int limit) : limit_(limit) {}
  // Waits for what is running.
  ~RequestThreads();

  int limit() const { return limit_; }
  // Runs `task` on a thread that does nothing else meanwhile. False, with nothing done, when
  // `limit` tasks are running.
  bool TryStart(std::function<void()> task);

 private:
  void Loop();

  const int limit_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_; each has an idle thread coming
  int running_ = 0;                          // guarded by mutex_; tasks taken and not ended
  bool stopping_ = false;                    // guarded by mutex_
  std::vector<std::thread> threads_;         // guarded by mutex_
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_SERVER_REQUEST_THREADS_H_
