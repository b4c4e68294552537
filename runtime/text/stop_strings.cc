#include "runtime/text/stop_strings.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/utf8.h"

namespace headway::text {

absl::StatusOr<StopMatcher> StopMatcher::Create(const std::vector<std::string>& stops,
                                                bool include_stop) {
  if (stops.size() > kMaxStops) {
    return absl::InvalidArgumentError(
        absl::StrCat("stop: ", stops.size(), " stop strings; at most ", kMaxStops));
  }
  StopMatcher matcher;
  matcher.stops_ = stops;
  matcher.include_stop_ = include_stop;
  matcher.states_.emplace_back();
  for (size_t s = 0; s < stops.size(); ++s) {
    if (stops[s].empty()) return absl::InvalidArgumentError("stop: a stop string is empty");
    if (stops[s].size() > kMaxStopBytes) {
      return absl::InvalidArgumentError(absl::StrCat("stop: a stop string of ", stops[s].size(),
                                                     " bytes; at most ", kMaxStopBytes));
    }
    if (FindInvalidUtf8(stops[s])) {
      return absl::InvalidArgumentError("stop: a stop string is not UTF-8");
    }
    int32_t state = 0;
    for (const char c : stops[s]) {
      const auto byte = static_cast<unsigned char>(c);
      int32_t child = matcher.Child(state, byte);
      if (child < 0) {
        child = static_cast<int32_t>(matcher.states_.size());
        matcher.states_[state].children.emplace_back(byte, child);
        matcher.states_.emplace_back();
        matcher.states_[child].depth = matcher.states_[state].depth + 1;
      }
      state = child;
    }
    if (matcher.states_[state].stop < 0) matcher.states_[state].stop = static_cast<int32_t>(s);
  }
  // Breadth first, so a state's fallback is complete before its children need it.
  std::vector<int32_t> queue = {0};
  for (size_t q = 0; q < queue.size(); ++q) {
    const int32_t state = queue[q];
    for (const auto& [byte, child] : matcher.states_[state].children) {
      State& c = matcher.states_[child];
      c.fallback = state == 0 ? 0 : matcher.Next(matcher.states_[state].fallback, byte);
      if (c.stop < 0) c.stop = matcher.states_[c.fallback].stop;
      queue.push_back(child);
    }
  }
  return matcher;
}

int32_t StopMatcher::Child(int32_t state, unsigned char byte) const {
  for (const auto& [b, child] : states_[state].children) {
    if (b == byte) return child;
  }
  return -1;
}

int32_t StopMatcher::Next(int32_t state, unsigned char byte) const {
  for (;; state = states_[state].fallback) {
    const int32_t child = Child(state, byte);
    if (child >= 0) return child;
    if (state == 0) return 0;
  }
}

std::string StopMatcher::Feed(std::string_view delta) {
  std::string out;
  if (matched()) return out;
  for (const char c : delta) {
    held_.push_back(c);
    state_ = Next(state_, static_cast<unsigned char>(c));
    if (states_[state_].stop >= 0) {
      matched_ = states_[state_].stop;
      const size_t cut = include_stop_ ? 0 : stops_[matched_].size();
      out.append(held_, 0, held_.size() - cut);
      held_.clear();
      return out;
    }
  }
  const size_t keep = states_[state_].depth;
  out.append(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string StopMatcher::Finish() { return std::exchange(held_, {}); }

}  // namespace headway::text
