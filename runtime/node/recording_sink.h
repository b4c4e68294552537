#ifndef HEADWAY_RUNTIME_NODE_RECORDING_SINK_H_
#define HEADWAY_RUNTIME_NODE_RECORDING_SINK_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/request/token_sink.h"

namespace headway {

// Keeps what a sequence delivers until somebody waits for it. Thread-safe.
class RecordingSink : public TokenSink {
 public:
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

  // Waits for the end.
  absl::Status Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    return status_;
  }
  // Waits for `count` tokens or the end, whichever comes first.
  void WaitForTokens(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ || events_.size() >= count; });
  }

  // After the end.
  const std::vector<TokenEvent>& events() const { return events_; }
  std::vector<int32_t> tokens() const {
    std::vector<int32_t> tokens;
    for (const TokenEvent& event : events_) tokens.push_back(event.token);
    return tokens;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenEvent> events_;
  bool done_ = false;
  absl::Status status_;
};

// One answer that a callback brings. Thread-safe.
template <class T>
class Answer {
 public:
  std::function<void(absl::StatusOr<T>)> Callback() {
    return [this](absl::StatusOr<T> value) {
      std::unique_lock lock(mutex_);
      value_ = std::move(value);
      there_ = true;
      changed_.notify_all();
    };
  }
  absl::StatusOr<T>& Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return there_; });
    return value_;
  }
  bool there() {
    std::unique_lock lock(mutex_);
    return there_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool there_ = false;
  absl::StatusOr<T> value_ = absl::UnknownError("no answer yet");
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_NODE_RECORDING_SINK_H_
