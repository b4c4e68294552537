#include "runtime/server/request_threads.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/cluster/error_details.h"

namespace headway {
namespace {

// When a router that is full may have room again.
constexpr double kRetrySeconds = 1;

}  // namespace

RequestThreads::~RequestThreads() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wake_.notify_all();
  // Each thread moves its own entry to ended_ as the last thing that it does under the lock.
  wake_.wait(lock, [this] { return threads_.empty(); });
  lock.unlock();
  ended_.clear();
}

absl::Status RequestThreads::Start(std::function<void()> task) {
  Threads ended;  // joined on the way out, after the lock is gone
  std::lock_guard lock(mutex_);
  ended.swap(ended_);
  const int busy = running_ + static_cast<int>(tasks_.size());
  if (stopping_ || busy >= limit_) {
    return WithRetryDelay(absl::ResourceExhaustedError(
                              absl::StrCat("the router runs ", busy, " requests, its limit is ",
                                           limit_, ": retry in ", kRetrySeconds, " s")),
                          kRetrySeconds);
  }
  if (busy >= static_cast<int>(threads_.size())) {
    const auto self = threads_.emplace(threads_.end());
    try {
      *self = std::jthread([this, self] { Loop(self); });
    } catch (const std::system_error& error) {
      threads_.erase(self);
      return WithRetryDelay(absl::ResourceExhaustedError(absl::StrCat(
                                "the router runs ", busy,
                                " requests and gets no thread for another: ", error.what())),
                            kRetrySeconds);
    }
  }
  tasks_.push_back(std::move(task));
  wake_.notify_one();
  return absl::OkStatus();
}

int RequestThreads::threads() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(threads_.size());
}

void RequestThreads::Loop(Threads::iterator self) {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_for(lock, idle_seconds_, [&] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) break;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    ++running_;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    --running_;
  }
  ended_.splice(ended_.end(), threads_, self);
  if (threads_.empty()) wake_.notify_all();
}

}  // namespace headway
