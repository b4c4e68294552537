#ifndef HEADWAY_RUNTIME_SERVER_HEALTH_WATCH_H_
#define HEADWAY_RUNTIME_SERVER_HEALTH_WATCH_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "runtime/server/server.h"

namespace headway {

// Lets a server's health follow that of what it serves: looks again and again, from a thread of its
// own, and writes a log line with each change.
class HealthWatch {
 public:
  // Both live as long as this object. `health` is thread-safe and does not wait.
  HealthWatch(std::function<absl::Status()> health, Server& server, double seconds = 0.5);
  // Leaves the server NOT_SERVING.
  ~HealthWatch();
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;

 private:
  void Run();

  const std::function<absl::Status()> health_;
  Server& server_;
  const double seconds_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_SERVER_HEALTH_WATCH_H_
