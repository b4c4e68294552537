#ifndef HEADWAY_RUNTIME_DEVICE_THREAD_TEAM_H_
#define HEADWAY_RUNTIME_DEVICE_THREAD_TEAM_H_

#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "runtime/device/float_environment.h"

namespace headway {

// A fixed team of threads that run one function together: the caller is thread 0.
//
// Thread-compatible: one owner calls its methods, never from inside a job.
// Waiting threads spin shortly, then give the core away: a core that other ranks share is never
// burnt for a whole slice; after some tens of microseconds without work they sleep. No allocation
// between construction and destruction, and no lock but for the sleep of idle threads.
//
// Jobs run with the default floating-point environment on every thread, the caller's included.
class ThreadTeam {
 public:
  static constexpr int kMaxThreads = 256;

  // `threads` in [1, kMaxThreads].
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }

  // Calls job(thread index) on every thread and returns when all are done. `job` is a callable that
  // lives until Run returns; it is called through a plain pointer (nothing is allocated).
  template <class Job>
  void Run(Job&& job) {
    RunOn(/*everybody=*/true, job);
  }

  // Calls unit(index, thread) for each index in [0, units), spread over the team: each thread takes
  // its own run of neighbouring units one by one, then helps the others. A thread that comes too
  // late, because somebody else has its core, is not waited for. With one unit or one thread no
  // other thread is woken.
  template <class Unit>
  void ParallelFor(int units, Unit&& unit) {
    if (units <= 1 || size_ == 1) return SerialFor(units, unit);
    ResetCounters();
    RunOn(/*everybody=*/false, [&](int thread) {
      for (int i = 0; i < size_; ++i) {
        const int run = (thread + i) % size_;
        const int begin = static_cast<int>(static_cast<int64_t>(units) * run / size_);
        const int end = static_cast<int>(static_cast<int64_t>(units) * (run + 1) / size_);
        for (int u; (u = begin + NextOfRun(run)) < end;) unit(u, thread);
      }
    });
  }

  // The same for units of very different length, longest first: whoever is free takes the next.
  template <class Unit>
  void OrderedFor(int units, Unit&& unit) {
    if (units <= 1 || size_ == 1) return SerialFor(units, unit);
    ResetCounters();
    RunOn(/*everybody=*/false, [&](int thread) {
      for (int u; (u = NextOfRun(0)) < units;) unit(u, thread);
    });
  }

  // The same on the caller alone: for work that is smaller than waking the others.
  template <class Unit>
  void SerialFor(int units, Unit&& unit) {
    const DefaultFloatEnvironment environment;
    for (int u = 0; u < units; ++u) unit(u, 0);
  }

 private:
  using Erased = void (*)(void*, int);
  template <class Job>
  void RunOn(bool everybody, Job&& job) {
    using Plain = std::remove_const_t<std::remove_reference_t<Job>>;
    RunErased([](void* p, int thread) { (*static_cast<Plain*>(p))(thread); },
              const_cast<Plain*>(&job), everybody);
  }
  // `everybody`: each thread runs the job once; else those that come while the caller does.
  void RunErased(Erased job, void* argument, bool everybody);
  void Work(int thread);
  void ResetCounters();
  // How many units of this run were taken before.
  int NextOfRun(int run);

  struct Shared;
  int size_;
  std::unique_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_DEVICE_THREAD_TEAM_H_
