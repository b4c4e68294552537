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

  // Returns the value once `ready(value)` holds.
  template <class Ready>
  uint32_t Wait(Ready ready) {
    for (int i = 0;; ++i) {
      const uint32_t now = value.load(std::memory_order_acquire);
      if (ready(now)) return now;
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

// In Shared::inside.
constexpr uint32_t kClosed = 1u << 31;

struct alignas(64) Counter {
  std::atomic<int> next{0};
};

}  // namespace

struct ThreadTeam::Shared {
  explicit Shared(int threads) : counters(threads) { inside.value = kClosed; }

  // The number of the last job given out.
  Signal start;
  // How many threads but the caller are inside the job, and whether more may enter. The caller
  // closes a job when its own part is done and waits only for those inside: a thread whose core
  // somebody else has never enters, and nobody waits for it.
  Signal inside;
  // How many threads have finished a job that needs everybody.
  Signal finished;
  std::atomic<bool> stop{false};
  // The job, written while it is closed and nobody is inside, read inside.
  Erased job = nullptr;
  void* argument = nullptr;
  uint32_t number = 0;
  bool everybody = false;
  std::vector<Counter> counters;  // one a run of ParallelFor
};

ThreadTeam::ThreadTeam(int threads) : size_(threads) {
  HEADWAY_CHECK(threads >= 1 && threads <= kMaxThreads);
  shared_ = std::make_unique<Shared>(threads);
  threads_.reserve(threads - 1);
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this, i] { Work(i); });
}

ThreadTeam::~ThreadTeam() {
  shared_->stop.store(true, std::memory_order_relaxed);
  shared_->start.value.fetch_add(1, std::memory_order_seq_cst);
  shared_->start.Wake();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::Work(int thread) {
  const DefaultFloatEnvironment environment;
  Shared& s = *shared_;
  uint32_t seen = 0;
  for (;;) {
    const uint32_t now = s.start.Wait([&](uint32_t number) { return number != seen; });
    if (s.stop.load(std::memory_order_relaxed)) return;
    seen = now;
    uint32_t inside = s.inside.value.load(std::memory_order_relaxed);
    while (!(inside & kClosed) &&
           !s.inside.value.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire,
                                                 std::memory_order_relaxed)) {
    }
    if (inside & kClosed) continue;
    // It may be a later job than the one that was waited for.
    seen = s.number;
    s.job(s.argument, thread);
    if (s.everybody) {
      s.finished.value.fetch_add(1, std::memory_order_seq_cst);
      s.finished.Wake();
    }
    s.inside.value.fetch_sub(1, std::memory_order_seq_cst);
    s.inside.Wake();
  }
}

void ThreadTeam::RunErased(Erased job, void* argument, bool everybody) {
  const DefaultFloatEnvironment environment;
  if (size_ == 1) return job(argument, 0);
  Shared& s = *shared_;
  s.job = job;
  s.argument = argument;
  s.everybody = everybody;
  s.number = s.start.value.load(std::memory_order_relaxed) + 1;
  s.finished.value.store(0, std::memory_order_relaxed);
  s.inside.value.store(0, std::memory_order_release);
  s.start.value.store(s.number, std::memory_order_seq_cst);
  s.start.Wake();
  job(argument, 0);
  if (everybody) {
    const uint32_t others = static_cast<uint32_t>(size_ - 1);
    s.finished.Wait([&](uint32_t threads) { return threads == others; });
  }
  if (s.inside.value.fetch_or(kClosed, std::memory_order_acq_rel) != 0) {
    s.inside.Wait([](uint32_t inside) { return inside == kClosed; });
  }
}

void ThreadTeam::ResetCounters() {
  for (Counter& c : shared_->counters) c.next.store(0, std::memory_order_relaxed);
}

int ThreadTeam::NextOfRun(int run) {
  return shared_->counters[run].next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace headway
