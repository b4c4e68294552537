#include "runtime/request/validate.h"

#include <algorithm>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace headway {
namespace {

absl::Status OutOfRange(const std::string& field, const absl::AlphaNum& value,
                        const std::string& limit) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, ", must be ", limit));
}

// Written so that NaN is refused: it is not within anything.
template <class T>
absl::Status Within(const std::string& field, T value, T low, T high) {
  if (low <= value && value <= high) return absl::OkStatus();
  return OutOfRange(field, value, absl::StrCat(low, " to ", high));
}

absl::Status ValidateId(const std::string& id) {
  if (id.size() > kMaxRequestIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "request_id has ", id.size(), " bytes, must have at most ", kMaxRequestIdBytes));
  }
  // It is written into log lines.
  for (size_t i = 0; i < id.size(); ++i) {
    if (id[i] > ' ' && id[i] < '\x7f') continue;
    return absl::InvalidArgumentError(absl::StrCat("request_id[", i, "] is byte ",
                                                   static_cast<unsigned char>(id[i]),
                                                   ", must be printable ASCII without spaces"));
  }
  return absl::OkStatus();
}

absl::Status ValidateTokens(const char* field, std::span<const int32_t> tokens,
                            int32_t vocabulary) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat(field, "[", i, "] is token ", tokens[i],
                                                     ", the vocabulary has 0 to ", vocabulary - 1));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidatePrompt(std::span<const int32_t> tokens, size_t fewest,
                            const ModelLimits& limits) {
  const int64_t count = static_cast<int64_t>(tokens.size());
  if (tokens.size() < fewest) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt has ", count, " tokens, must have at least ", fewest));
  }
  if (count > limits.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat("prompt has ", count,
                                                   " tokens, the model's limit is ",
                                                   limits.max_positions, " positions"));
  }
  if (count > limits.kv_positions) {
    return absl::ResourceExhaustedError(
        absl::StrCat("prompt has ", count, " tokens, the KV cache holds ", limits.kv_positions));
  }
  return ValidateTokens("prompt", tokens, limits.vocabulary);
}

absl::Status ValidateStop(std::span<const std::string> stop, bool has_tokenizer) {
  if (stop.size() > kMaxStopStrings) {
    return absl::InvalidArgumentError(
        absl::StrCat("stop has ", stop.size(), " entries, must have at most ", kMaxStopStrings));
  }
  for (size_t i = 0; i < stop.size(); ++i) {
    if (stop[i].empty() || stop[i].size() > kMaxStopStringBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "stop[", i, "] has ", stop[i].size(), " bytes, must have 1 to ", kMaxStopStringBytes));
    }
  }
  if (!stop.empty() && !has_tokenizer) {
    return absl::FailedPreconditionError(
        "stop: the checkpoint has no tokenizer; use stop_token_ids");
  }
  return absl::OkStatus();
}

// Prompt and output together.
absl::Status ValidatePositions(int64_t prompt_tokens, int64_t max_tokens,
                               const ModelLimits& limits) {
  const int64_t positions = prompt_tokens + max_tokens;
  if (positions > limits.max_positions) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_tokens is ", max_tokens, ", which with the ", prompt_tokens,
                     " tokens of the prompt makes ", positions, "; the model's limit is ",
                     limits.max_positions, " positions"));
  }
  if (positions > limits.kv_positions) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "max_tokens is ", max_tokens, ", which with the ", prompt_tokens,
        " tokens of the prompt makes ", positions, "; the KV cache holds ", limits.kv_positions));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSampling(const SamplingParams& sampling, int32_t vocabulary) {
  HEADWAY_RETURN_IF_ERROR(Within("temperature", sampling.temperature, 0.0f, kMaxTemperature));
  if (sampling.top_k < 0) return OutOfRange("top_k", sampling.top_k, "0 (off) or more");
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return OutOfRange("top_p", sampling.top_p, "above 0, at most 1");
  }
  if (sampling.max_tokens < 1) return OutOfRange("max_tokens", sampling.max_tokens, "1 or more");
  if (sampling.min_tokens < 0 || sampling.min_tokens > sampling.max_tokens) {
    return OutOfRange("min_tokens", sampling.min_tokens,
                      absl::StrCat("0 to max_tokens, which is ", sampling.max_tokens));
  }
  HEADWAY_RETURN_IF_ERROR(Within("logprobs", sampling.logprobs, -1, kMaxLogprobs));
  if (sampling.stop_token_ids.size() > kMaxStopTokens) {
    return absl::InvalidArgumentError(absl::StrCat("stop_token_ids has ",
                                                   sampling.stop_token_ids.size(),
                                                   " entries, must have at most ", kMaxStopTokens));
  }
  return ValidateTokens("stop_token_ids", sampling.stop_token_ids, vocabulary);
}

absl::Status ValidateGenerate(const GenerateRequest& request, const ModelLimits& limits) {
  HEADWAY_RETURN_IF_ERROR(ValidateId(request.id));
  HEADWAY_RETURN_IF_ERROR(ValidatePrompt(request.prompt, 1, limits));
  HEADWAY_RETURN_IF_ERROR(ValidateSampling(request.sampling, limits.vocabulary));
  HEADWAY_RETURN_IF_ERROR(ValidateStop(request.stop, limits.has_tokenizer));
  return ValidatePositions(static_cast<int64_t>(request.prompt.size()), request.sampling.max_tokens,
                           limits);
}

absl::Status ValidateScore(const ScoreRequest& request, const ModelLimits& limits) {
  HEADWAY_RETURN_IF_ERROR(ValidateId(request.id));
  HEADWAY_RETURN_IF_ERROR(ValidatePrompt(request.tokens, 2, limits));
  return Within("top", request.top, 0, kMaxLogprobs);
}

int32_t DefaultMaxTokens(int64_t prompt_tokens, const ModelLimits& limits) {
  const int64_t left = std::min(limits.max_positions, limits.kv_positions) - prompt_tokens;
  return static_cast<int32_t>(std::clamp<int64_t>(left, 1, SamplingParams().max_tokens));
}

}  // namespace headway
