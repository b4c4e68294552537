#include "runtime/engine/token_chooser.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/status.h"

namespace headway {

TokenChooser::TokenChooser(int vocabulary, std::vector<int32_t> eos_tokens)
    : eos_tokens_(std::move(eos_tokens)), workspace_(vocabulary) {}

bool TokenChooser::Ends(const SamplingParams& params, int32_t token) const {
  auto holds = [token](const std::vector<int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  return holds(params.stop_token_ids) || (!params.ignore_eos && holds(eos_tokens_));
}

absl::StatusOr<TokenEvent> TokenChooser::Choose(std::span<const float> logits,
                                                const SamplingParams& params, int index,
                                                int64_t position) {
  banned_.clear();
  if (index < params.min_tokens) {
    banned_ = params.stop_token_ids;
    if (!params.ignore_eos) banned_.insert(banned_.end(), eos_tokens_.begin(), eos_tokens_.end());
  }
  const kernels::SamplerSettings settings = {
      .temperature = params.temperature, .top_k = params.top_k, .top_p = params.top_p};
  TokenEvent event;
  event.index = index;
  HEADWAY_ASSIGN_OR_RETURN(event.token, kernels::SampleToken(logits, banned_, settings,
                                                             kernels::SamplingKey(params.seed, 0),
                                                             position, workspace_));
  if (params.logprobs >= 0) {
    kernels::TokenLogprob chosen;
    top_.clear();
    kernels::Logprobs(logits, event.token, params.logprobs, workspace_, &chosen, &top_);
    event.logprob = chosen.logprob;
    for (const kernels::TokenLogprob& t : top_) event.top.push_back({t.token, t.logprob});
  }
  if (Ends(params, event.token)) {
    event.finish = FinishReason::kStop;
  } else if (index + 1 >= params.max_tokens) {
    event.finish = FinishReason::kLength;
  }
  return event;
}

absl::Status TokenChooser::Score(std::span<const float> logits, int32_t token, int top,
                                 std::vector<float>& logprobs,
                                 std::vector<std::vector<TokenEvent::Alternative>>& tops) {
  kernels::TokenLogprob chosen;
  top_.clear();
  kernels::Logprobs(logits, token, top, workspace_, &chosen, &top_);
  if (std::isnan(chosen.logprob)) {
    return absl::InvalidArgumentError(absl::StrCat("score: the log-probability of token ", token,
                                                   " is nan: are the checkpoint's weights sound?"));
  }
  logprobs.push_back(chosen.logprob);
  auto& alternatives = tops.emplace_back();
  for (const kernels::TokenLogprob& t : top_) alternatives.push_back({t.token, t.logprob});
  return absl::OkStatus();
}

}  // namespace headway
