#ifndef HEADWAY_RUNTIME_TEXT_STOP_STRINGS_H_
#define HEADWAY_RUNTIME_TEXT_STOP_STRINGS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace headway::text {

// Ends a stream of text at a stop string. The text ends at the first character where some stop
// string is a suffix of it, whatever the grouping into deltas; of several that end there the
// longest is cut off. What may still become a stop string is held back. Compares code points, not
// normalised text. One sequence each; not thread-safe.
class StopMatcher {
 public:
  static constexpr size_t kMaxStops = 64;
  static constexpr size_t kMaxStopBytes = 4096;  // each

  // include_stop: the stop string is part of the text. No stops at all is fine: everything passes.
  // InvalidArgument names an empty stop string, one that is too long or not UTF-8, or too many.
  static absl::StatusOr<StopMatcher> Create(const std::vector<std::string>& stops,
                                            bool include_stop = false);

  // The text that `delta` (whole characters) lets out. After a match everything is dropped.
  std::string Feed(std::string_view delta);
  // What was held back, when the text ends without a match; nothing after one.
  std::string Finish();

  bool matched() const { return matched_ >= 0; }
  // The stop string that ended the text; requires matched().
  const std::string& match() const { return stops_[matched_]; }

 private:
  // The automaton of Aho and Corasick over bytes. A state is a prefix of some stop string, the
  // longest that is a suffix of the text so far.
  struct State {
    std::vector<std::pair<unsigned char, int32_t>> children;
    int32_t fallback = 0;  // the longest proper suffix that is a state too
    int32_t depth = 0;     // bytes of the prefix
    int32_t stop = -1;     // the longest stop string that is a suffix of it
  };
  StopMatcher() = default;
  int32_t Child(int32_t state, unsigned char byte) const;
  int32_t Next(int32_t state, unsigned char byte) const;

  std::vector<std::string> stops_;
  std::vector<State> states_;
  bool include_stop_ = false;
  int32_t state_ = 0;
  std::string held_;
  int32_t matched_ = -1;
};

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_STOP_STRINGS_H_
