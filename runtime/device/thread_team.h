#ifndef HEADWAY_RUNTIME_DEVICE_THREAD_TEAM_H_
#define HEADWAY_RUNTIME_DEVICE_THREAD_TEAM_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace headway {

// A fixed team of threads that run one function together: the caller is thread 0.
//
// Thread-compatible: one owner calls Run; nothing else is called from inside a Run but ShareWork
// and Barrier. Waiting threads spin shortly, then give the core away: a core that other ranks share
// is never burnt for a whole slice; after some tens of microseconds without work they sleep. No
// allocation and no lock between construction and destruction but for the sleep of idle threads.
class ThreadTeam {
 public:
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }

  // Calls job(thread index) on every thread and returns when all are done. `job` is a callable that
  // lives until Run returns; it is called through a plain pointer (nothing is allocated).
  template <class Job>
  void Run(Job&& job) {
    RunErased([](void* p, int thread) { (*static_cast<std::remove_reference_t<Job>*>(p))(thread); },
              &job);
  }

  // Calls unit(index, thread) for each index in [0, units), spread over the team: each thread takes
  // its own run of neighbouring units one by one, then helps the others. With one unit or one
  // thread no other thread is woken.
  template <class Unit>
  void ParallelFor(int units, Unit&& unit) {
    if (units <= 1 || size_ == 1) {
      for (int i = 0; i < units; ++i) unit(i, 0);
      return;
    }
    ResetCounters();
    Run([&](int thread) {
      for (int i = 0; i < size_; ++i) {
        const int run = (thread + i) % size_;
        const int begin = static_cast<int>(static_cast<int64_t>(units) * run / size_);
        const int end = static_cast<int>(static_cast<int64_t>(units) * (run + 1) / size_);
        for (int u; (u = begin + NextOfRun(run)) < end;) unit(u, thread);
      }
    });
  }

 private:
  using Erased = void (*)(void*, int);
  void RunErased(Erased job, void* argument);
  void ResetCounters();
  int NextOfRun(int run);

  struct Shared;
  int size_;
  std::unique_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_DEVICE_THREAD_TEAM_H_
