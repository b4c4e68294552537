#include "runtime/server/request_threads.h"

#include <utility>

namespace headway {

RequestThreads::~RequestThreads() {
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

bool RequestThreads::TryStart(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  const int busy = running_ + static_cast<int>(tasks_.size());
  if (stopping_ || busy >= limit_) return false;
  if (busy >= static_cast<int>(threads_.size())) threads_.emplace_back([this] { Loop(); });
  tasks_.push_back(std::move(task));
  wake_.notify_one();
  return true;
}

void RequestThreads::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    ++running_;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    --running_;
  }
}

}  // namespace headway
