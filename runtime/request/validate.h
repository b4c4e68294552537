#ifndef HEADWAY_RUNTIME_REQUEST_VALIDATE_H_
#define HEADWAY_RUNTIME_REQUEST_VALIDATE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "runtime/request/request.h"

namespace headway {

// The ranges of a request's fields, where the model does not decide them.
inline constexpr float kMaxTemperature = 100;
inline constexpr int32_t kMaxLogprobs = 20;
inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopStringBytes = 256;
inline constexpr size_t kMaxStopTokens = 64;
inline constexpr size_t kMaxRequestIdBytes = 128;

// What the served model and the nodes that serve it can take.
struct ModelLimits {
  int32_t vocabulary = 0;
  int64_t max_positions = 0;  // of prompt and output together
  int64_t kv_positions = 0;   // that the smallest KV pool on a sequence's way holds
  bool has_tokenizer = true;
};

// Whether `request` can be served at all, by the whole of its fields: nothing that fails here
// reaches a node. Nothing is shortened to fit. Pure. The message names the field, its value and its
// limit.
// InvalidArgument: a field out of its range (NaN included), or more positions than the model has.
// FailedPrecondition: stop strings without a tokenizer. ResourceExhausted: more positions than a KV
// pool holds, even an empty one.
absl::Status ValidateGenerate(const GenerateRequest& request, const ModelLimits& limits);
// The sampling fields alone, as a node checks them that trusts no caller.
absl::Status ValidateSampling(const SamplingParams& sampling, int32_t vocabulary);
absl::Status ValidateScore(const ScoreRequest& request, const ModelLimits& limits);

// max_tokens of a request that names none: the default, or what the limits leave after a prompt of
// `prompt_tokens` where that is less, but at least 1 (which then does not validate).
int32_t DefaultMaxTokens(int64_t prompt_tokens, const ModelLimits& limits);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_REQUEST_VALIDATE_H_
