#include "runtime/server/health_watch.h"

#include <chrono>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/status.h"

namespace headway {

HealthWatch::HealthWatch(std::function<absl::Status()> health, Server& server, double seconds)
    : health_(std::move(health)), server_(server), seconds_(seconds) {
  server_.SetServing(health_().ok());
  thread_ = std::thread([this] { Run(); });
}

HealthWatch::~HealthWatch() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
  server_.SetServing(false);
}

void HealthWatch::Run() {
  bool serving = true;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const absl::Status health = health_();
    server_.SetServing(health.ok());
    if (serving != health.ok()) {
      serving = health.ok();
      if (serving) {
        LogInfo("takes requests again");
      } else {
        LogWarning(absl::StrCat("takes no requests: ", health.message()));
      }
    }
    stopped_.wait_for(lock, std::chrono::duration<double>(seconds_), [this] { return stop_; });
  }
}

}  // namespace headway
