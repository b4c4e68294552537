#include "runtime/router/node_messages.h"

#include "absl/strings/str_cat.h"

namespace headway {
namespace {

void SetSampling(const SamplingParams& sampling, v1::NodeSampling& out) {
  out.set_temperature(sampling.temperature);
  out.set_top_k(sampling.top_k);
  out.set_top_p(sampling.top_p);
  out.set_seed(sampling.seed);
  out.set_max_tokens(sampling.max_tokens);
  out.set_min_tokens(sampling.min_tokens);
  out.mutable_stop_token_ids()->Assign(sampling.stop_token_ids.begin(),
                                       sampling.stop_token_ids.end());
  out.set_ignore_eos(sampling.ignore_eos);
  out.set_logprobs(sampling.logprobs);
}

}  // namespace

v1::ReserveRequest ReserveMessage(const GenerateRequest& request, const std::string& numerics_id,
                                  uint32_t lease_ms) {
  v1::ReserveRequest message;
  message.set_request_id(request.id);
  message.set_numerics_id(numerics_id);
  message.set_prompt_tokens(static_cast<int32_t>(request.prompt.size()));
  message.set_max_tokens(request.sampling.max_tokens);
  message.set_lease_ms(lease_ms);
  return message;
}

v1::PrefillRequest PrefillMessage(const GenerateRequest& request, const std::string& numerics_id,
                                  const v1::Reservation& target) {
  v1::PrefillRequest message;
  message.set_request_id(request.id);
  message.mutable_prompt()->Assign(request.prompt.begin(), request.prompt.end());
  SetSampling(request.sampling, *message.mutable_sampling());
  *message.mutable_target() = target;
  message.set_numerics_id(numerics_id);
  message.set_trace(request.trace);
  return message;
}

v1::DecodeRequest DecodeMessage(const GenerateRequest& request, const v1::PrefillReply& prefilled) {
  v1::DecodeRequest message;
  message.set_request_id(request.id);
  message.mutable_prompt()->Assign(request.prompt.begin(), request.prompt.end());
  // The trace of the prompt is the client's, not the decode node's.
  message.mutable_first()->set_index(prefilled.first().index());
  message.mutable_first()->set_id(prefilled.first().id());
  SetSampling(request.sampling, *message.mutable_sampling());
  *message.mutable_manifest() = prefilled.manifest();
  message.set_trace(request.trace);
  return message;
}

v1::NodeGenerateRequest GenerateMessage(const GenerateRequest& request,
                                        const std::string& numerics_id) {
  v1::NodeGenerateRequest message;
  message.set_request_id(request.id);
  message.mutable_prompt()->Assign(request.prompt.begin(), request.prompt.end());
  SetSampling(request.sampling, *message.mutable_sampling());
  message.set_numerics_id(numerics_id);
  message.set_trace(request.trace);
  return message;
}

v1::ScoreTokensRequest ScoreMessage(const ScoreRequest& request, const std::string& numerics_id) {
  v1::ScoreTokensRequest message;
  message.set_request_id(request.id);
  message.mutable_ids()->Assign(request.tokens.begin(), request.tokens.end());
  message.set_top(request.top);
  message.set_numerics_id(numerics_id);
  message.set_trace(request.trace);
  return message;
}

absl::StatusOr<FinishReason> FinishOf(const v1::Token& token) {
  switch (token.finish()) {
    case v1::TOKEN_FINISH_NONE:
      return FinishReason::kNone;
    case v1::TOKEN_FINISH_STOP:
      return FinishReason::kStop;
    case v1::TOKEN_FINISH_LENGTH:
      return FinishReason::kLength;
    case v1::TOKEN_FINISH_CANCELLED:
      return FinishReason::kCancelled;
    default:
      return absl::InternalError(
          absl::StrCat("token ", token.index(), " ends the output for reason ",
                       static_cast<int>(token.finish()), ", which this router does not know"));
  }
}

absl::Status CheckReservation(const v1::Reservation& reservation, uint64_t asked_id) {
  if (reservation.reservation_id() == asked_id && reservation.lease_ms() > 0) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("granted reservation ", reservation.reservation_id(),
                                          " for ", reservation.lease_ms(), " ms where ", asked_id,
                                          " was asked for"));
}

absl::Status CheckPrefilled(const v1::PrefillReply& reply, const v1::Reservation& target) {
  if (!reply.has_first()) return absl::InternalError("prefill answered without a first token");
  if (reply.manifest().reservation_id() == target.reservation_id()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("prefill answered with a manifest for reservation ",
                                          reply.manifest().reservation_id(), ", not ",
                                          target.reservation_id()));
}

absl::Status CheckScores(const v1::ScoreTokensReply& reply, const ScoreRequest& request) {
  const int positions = static_cast<int>(request.tokens.size()) - 1;
  const int tops = request.top > 0 ? positions : reply.top_size();
  if (reply.token_logprobs_size() == positions && reply.top_size() == tops) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("scores of ", reply.token_logprobs_size(),
                                          " positions and alternatives of ", reply.top_size(),
                                          " where ", positions, " were due"));
}

}  // namespace headway
