#ifndef HEADWAY_RUNTIME_TEXT_CHAT_BUDGET_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"

namespace headway::text::chat {

// What one rendering may use. A template comes with a checkpoint and its input with a request:
// neither may hurt the process.
struct Limits {
  int64_t steps = 1'000'000;  // evaluated nodes; work on long values counts by its bytes
  size_t output_bytes = 8 << 20;
  size_t memory_bytes = 64 << 20;  // of all values alive
  int calls = 100;                 // macros inside macros
  int depth = 200;                 // nesting of values, of blocks and of expressions
};

// Keeps count. Not thread-safe; outlives every Charge.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  const Limits& limits() const { return limits_; }
  // Counts one step and work on `bytes` bytes. ResourceExhausted when the steps are used up.
  absl::Status Step(size_t bytes = 0);
  // Counts work that cannot fail here; the next Step does.
  void Work(size_t bytes) { worked_bytes_ += static_cast<int64_t>(bytes); }

  bool exhausted() const { return worked_bytes_ / kBytesPerStep > limits_.steps; }

  size_t free_bytes() const { return limits_.memory_bytes - used_bytes_; }
  // The error when more is needed than free_bytes().
  absl::Status OutOfMemory() const;

 private:
  friend class Charge;
  // What is copied, compared or searched in about the time of one step.
  static constexpr int64_t kBytesPerStep = 256;

  Limits limits_;
  int64_t worked_bytes_ = 0;  // a step counts as kBytesPerStep
  size_t used_bytes_ = 0;
};

// Memory that is in use as long as this lives. Movable.
class Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() {
    if (budget_ != nullptr) budget_->used_bytes_ -= bytes_;
  }

  // Takes `bytes` more from `budget`, the same in every call. ResourceExhausted when there are not
  // that many; nothing is taken then.
  absl::Status Grow(Budget* budget, size_t bytes);

 private:
  Budget* budget_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_BUDGET_H_
