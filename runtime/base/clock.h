#ifndef HEADWAY_RUNTIME_BASE_CLOCK_H_
#define HEADWAY_RUNTIME_BASE_CLOCK_H_

#include <atomic>
#include <cstdint>

namespace headway {

// Monotonic time. Injected wherever a deadline or a lease is kept, so tests need not wait.
class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since an arbitrary start; never decreases. Thread-safe.
  virtual int64_t NowNanos() const = 0;
  double NowSeconds() const { return static_cast<double>(NowNanos()) * 1e-9; }

  // The machine's steady clock; lives as long as the process.
  static const Clock& Real();
};

// A clock that tests move by hand. Thread-safe.
class FakeClock : public Clock {
 public:
  int64_t NowNanos() const override { return now_.load(); }
  void AdvanceNanos(int64_t nanos) { now_ += nanos; }
  void AdvanceSeconds(double seconds) { now_ += static_cast<int64_t>(seconds * 1e9); }

 private:
  std::atomic<int64_t> now_{1};
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_BASE_CLOCK_H_
