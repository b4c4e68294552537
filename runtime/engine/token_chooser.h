#ifndef HEADWAY_RUNTIME_ENGINE_TOKEN_CHOOSER_H_
#define HEADWAY_RUNTIME_ENGINE_TOKEN_CHOOSER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/sampling.h"
#include "runtime/request/sampling_params.h"
#include "runtime/request/token_sink.h"

namespace headway {

// Chooses the next token of a sequence from its logits: a pure function of (logits, sampling
// parameters, seed, position, number of output tokens so far), so every node and every retry
// chooses the same. One per node; not thread-safe.
class TokenChooser {
 public:
  // `eos_tokens`: those that the checkpoint declares.
  TokenChooser(int vocabulary, std::vector<int32_t> eos_tokens);

  // The token at `position` (that of the new token), the `index`-th output token, with its
  // log-probabilities and, where it ends the sequence, the reason.
  absl::StatusOr<TokenEvent> Choose(std::span<const float> logits, const SamplingParams& params,
                                    int index, int64_t position);

  // Appends log p(token) and the `top` most likely tokens of one row. InvalidArgument when the
  // logits hold a NaN.
  absl::Status Score(std::span<const float> logits, int32_t token, int top,
                     std::vector<float>& logprobs,
                     std::vector<std::vector<TokenEvent::Alternative>>& tops);

 private:
  bool Ends(const SamplingParams& params, int32_t token) const;

  std::vector<int32_t> eos_tokens_;
  kernels::SamplingWorkspace workspace_;
  std::vector<int32_t> banned_;
  std::vector<kernels::TokenLogprob> top_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_ENGINE_TOKEN_CHOOSER_H_
