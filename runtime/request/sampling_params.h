#ifndef HEADWAY_RUNTIME_REQUEST_SAMPLING_PARAMS_H_
#define HEADWAY_RUNTIME_REQUEST_SAMPLING_PARAMS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace headway {

// How the tokens of a request are chosen. Plain data; validate.h checks the ranges.
struct SamplingParams {
  float temperature = 0;  // 0: greedy; at most 100
  int32_t top_k = 0;      // 0: off
  float top_p = 1;        // in (0, 1]; 1: off
  uint64_t seed = 0;      // always set by the time a node sees it
  int32_t max_tokens = 128;
  int32_t min_tokens = 0;  // end and stop tokens are banned before this many
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
  int32_t logprobs = -1;  // -1: none; n: of the chosen token and the n most likely; at most 20
  bool operator==(const SamplingParams&) const = default;
};

enum class FinishReason { kNone, kStop, kLength, kCancelled };
const char* FinishReasonName(FinishReason reason);  // "", "stop", "length", "cancelled"

}  // namespace headway

#endif  // HEADWAY_RUNTIME_REQUEST_SAMPLING_PARAMS_H_
