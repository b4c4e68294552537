#include "runtime/device/thread_team.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "runtime/base/check.h"

namespace headway {
namespace {

// Some tens of microseconds of pauses, then yields: where nothing else wants the core a yield takes
// well under a microsecond, where somebody does it lasts as long as their slice.
constexpr int kPauses = 1000;
constexpr int kYields = 100;

// A word that one side changes and the other waits for.
struct alignas(64) Signal {
  std::atomic<uint32_t> value{0};
  std::atomic<int> sleepers{0};

  void Wake() {
    // Sequentially consistent with Sleep: either this sees the sleeper, or the kernel sees the new
    // value and does not let it sleep.
    if (sleepers.load(std::memory_order_seq_cst) > 0) {
      syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, ThreadTeam::kMaxThreads, nullptr, nullptr, 0);
    }
  }

  void Sleep(uint32_t while_it_is) {
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, while_it_is, nullptr, nullptr, 0);
    sleepers.fetch_sub(1, std::memory_order_relaxed);
  }

  // Returns once `ready(value)` holds.
  template <class Ready>
  void Wait(Ready ready) {
    for (int i = 0;; ++i) {
      const uint32_t now = value.load(std::memory_order_acquire);
      if (ready(now)) return;
      if (i < kPauses) {
        _mm_pause();
      } else if (i < kPauses + kYields) {
        sched_yield();
      } else {
        Sleep(now);
      }
    }
  }
};

struct alignas(64) Counter {
  std::atomic<int> next{0};
};

}  // namespace

struct ThreadTeam::Shared {
  explicit Shared(int threads) : counters(threads) {}

  Signal start;  // counts the jobs given out
  Signal done;   // counts the jobs finished, over all threads but the caller
  // Published by `start`.
  Erased job = nullptr;
  void* argument = nullptr;
  bool stop = false;
  std::vector<Counter> counters;  // one a run of ParallelFor
};

ThreadTeam::ThreadTeam(int threads) : size_(threads) {
  HEADWAY_CHECK(threads >= 1 && threads <= kMaxThreads);
  shared_ = std::make_unique<Shared>(threads);
  threads_.reserve(threads - 1);
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this, i] { Work(i); });
}

ThreadTeam::~ThreadTeam() {
  shared_->stop = true;
  shared_->start.value.fetch_add(1, std::memory_order_seq_cst);
  shared_->start.Wake();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::Work(int thread) {
  const DefaultFloatEnvironment environment;
  Shared& s = *shared_;
  for (uint32_t seen = 0;; ++seen) {
    s.start.Wait([&](uint32_t now) { return now != seen; });
    if (s.stop) return;
    s.job(s.argument, thread);
    s.done.value.fetch_add(1, std::memory_order_seq_cst);
    s.done.Wake();
  }
}

void ThreadTeam::RunErased(Erased job, void* argument) {
  const DefaultFloatEnvironment environment;
  if (size_ == 1) return job(argument, 0);
  Shared& s = *shared_;
  s.job = job;
  s.argument = argument;
  // Nobody changes `done` between two jobs.
  const uint32_t all_done = s.done.value.load(std::memory_order_relaxed) + (size_ - 1);
  s.start.value.fetch_add(1, std::memory_order_seq_cst);
  s.start.Wake();
  job(argument, 0);
  s.done.Wait([&](uint32_t now) { return now == all_done; });
}

void ThreadTeam::ResetCounters() {
  for (Counter& c : shared_->counters) c.next.store(0, std::memory_order_relaxed);
}

int ThreadTeam::NextOfRun(int run) {
  return shared_->counters[run].next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace headway
