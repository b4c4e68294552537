#ifndef HEADWAY_RUNTIME_NODE_RECORDING_SINK_H_
#define HEADWAY_RUNTIME_NODE_RECORDING_SINK_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"
#include "runtime/request/token_sink.h"

namespace headway {

// How long the two below wait for something to happen, unless told otherwise.
inline constexpr double kAnswerSeconds = 40;

// Keeps what a sequence delivers until somebody waits for it. Thread-safe.
class RecordingSink : public TokenSink {
 public:
  // `seconds`: how long its waits take for the next token or the end.
  explicit RecordingSink(double seconds = kAnswerSeconds) : seconds_(seconds) {}
  // A sequence that has not ended in time still writes here: there is no going on.
  ~RecordingSink() override { HEADWAY_CHECK(!overdue_); }

  void OnToken(TokenEvent event) override {
    std::unique_lock lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_all();
  }
  void OnDone(const absl::Status& status) override {
    std::unique_lock lock(mutex_);
    done_ = true;
    status_ = status;
    changed_.notify_all();
  }

  // Waits for the end; DeadlineExceeded when nothing comes for too long.
  absl::Status Wait() {
    std::unique_lock lock(mutex_);
    while (!done_) {
      if (!WaitForMore(lock)) {
        return absl::DeadlineExceededError(absl::StrCat("no token and no end for ", seconds_,
                                                        " s, after ", events_.size(), " tokens"));
      }
    }
    return status_;
  }
  // Waits for `count` tokens or the end, whichever comes first; no longer than Wait.
  void WaitForTokens(size_t count) {
    std::unique_lock lock(mutex_);
    while (!done_ && events_.size() < count && WaitForMore(lock)) {
    }
  }

  // After the end.
  const std::vector<TokenEvent>& events() const { return events_; }
  std::vector<int32_t> tokens() const {
    std::vector<int32_t> tokens;
    for (const TokenEvent& event : events_) tokens.push_back(event.token);
    return tokens;
  }

 private:
  bool WaitForMore(std::unique_lock<std::mutex>& lock) {
    overdue_ =
        !changed_.wait_for(lock, std::chrono::duration<double>(seconds_),
                           [this, had = events_.size()] { return done_ || events_.size() > had; });
    return !overdue_;
  }

  const double seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenEvent> events_;
  bool done_ = false;
  bool overdue_ = false;
  absl::Status status_;
};

// One answer that a callback brings. Thread-safe.
template <class T>
class Answer {
 public:
  // `seconds`: how long Wait takes.
  explicit Answer(double seconds = kAnswerSeconds) : seconds_(seconds) {}
  // An answer that has not come in time would still be written here: there is no going on.
  ~Answer() { HEADWAY_CHECK(!overdue_); }

  std::function<void(absl::StatusOr<T>)> Callback() {
    return [this](absl::StatusOr<T> value) {
      std::unique_lock lock(mutex_);
      value_ = std::move(value);
      there_ = true;
      changed_.notify_all();
    };
  }
  // DeadlineExceeded when none comes.
  absl::StatusOr<T>& Wait() {
    std::unique_lock lock(mutex_);
    overdue_ = !changed_.wait_for(lock, std::chrono::duration<double>(seconds_),
                                  [this] { return there_; });
    if (overdue_)
      value_ = absl::DeadlineExceededError(absl::StrCat("no answer in ", seconds_, " s"));
    return value_;
  }
  bool there() {
    std::unique_lock lock(mutex_);
    return there_;
  }

 private:
  const double seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool there_ = false;
  bool overdue_ = false;
  absl::StatusOr<T> value_ = absl::UnknownError("no answer yet");
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_NODE_RECORDING_SINK_H_
