#include "runtime/server/inference_translation.h"

#include <utility>

#include "runtime/base/status.h"
#include "runtime/request/validate.h"

namespace headway {
namespace {

v1::FinishReason ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return v1::FINISH_REASON_UNSPECIFIED;
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kCancelled:
      return v1::FINISH_REASON_CANCELLED;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

void ToProto(const v1::Alternative& alternative, v1::TokenLogprob& out) {
  out.set_id(alternative.id());
  out.set_logprob(alternative.logprob());
}

void ToProto(v1::PositionDigest& digest, v1::PositionTrace& out) {
  out.set_position(digest.position());
  out.mutable_layers()->Swap(digest.mutable_layers());
  out.set_logits(digest.logits());
}

}  // namespace

absl::StatusOr<Prompt> FromProto(const v1::Prompt& prompt) {
  switch (prompt.kind_case()) {
    case v1::Prompt::kText:
      return Prompt(prompt.text());
    case v1::Prompt::kTokenIds: {
      const auto& ids = prompt.token_ids().ids();
      return Prompt(std::vector<int32_t>(ids.begin(), ids.end()));
    }
    case v1::Prompt::kChat: {
      std::vector<text::ChatMessage> messages;
      for (const v1::ChatMessage& message : prompt.chat().messages()) {
        messages.push_back({.role = message.role(), .content = message.content()});
      }
      return Prompt(std::move(messages));
    }
    case v1::Prompt::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("prompt is not set; give one of text, token_ids and chat");
}

absl::StatusOr<GenerateInput> FromProto(const v1::GenerateRequest& request) {
  const v1::GenerateOptions& options = request.options();
  GenerateInput input;
  SamplingParams& sampling = input.request.sampling;
  HEADWAY_ASSIGN_OR_RETURN(input.prompt, FromProto(request.prompt()));
  sampling.temperature = options.temperature();
  sampling.top_k = options.top_k();
  if (options.has_top_p()) sampling.top_p = options.top_p();
  if (options.has_seed()) input.seed = options.seed();
  if (options.has_max_tokens()) input.max_tokens = options.max_tokens();
  sampling.min_tokens = options.min_tokens();
  input.request.stop.assign(options.stop().begin(), options.stop().end());
  sampling.stop_token_ids.assign(options.stop_token_ids().begin(), options.stop_token_ids().end());
  sampling.ignore_eos = options.ignore_eos();
  if (options.has_logprobs()) {
    // From here on -1 would mean "none".
    if (options.logprobs() < 0 || options.logprobs() > kMaxLogprobs) {
      return absl::InvalidArgumentError(absl::StrCat("logprobs is ", options.logprobs(),
                                                     ", must be 0 to ", kMaxLogprobs,
                                                     "; leave it unset for none"));
    }
    sampling.logprobs = options.logprobs();
  }
  input.request.include_stop_string = options.include_stop_string();
  input.request.include_control_tokens = options.include_control_tokens();
  input.request.trace = options.trace();
  input.request.id = request.request_id();
  return input;
}

absl::StatusOr<ScoreInput> FromProto(const v1::ScoreRequest& request) {
  ScoreInput input;
  HEADWAY_ASSIGN_OR_RETURN(input.prompt, FromProto(request.prompt()));
  input.request.top = request.top();
  input.request.trace = request.trace();
  input.request.id = request.request_id();
  return input;
}

void ToProto(GenerateDelta& delta, bool with_logprobs, v1::GenerateResponse& out) {
  out.set_text(std::move(delta.text));
  for (v1::Token& token : delta.tokens) {
    v1::OutputToken& output = *out.add_tokens();
    output.set_index(token.index());
    output.set_id(token.id());
    if (with_logprobs) {
      output.set_logprob(token.logprob());
      for (const v1::Alternative& alternative : token.top()) {
        ToProto(alternative, *output.add_top());
      }
    }
    for (v1::PositionDigest& digest : *token.mutable_trace()) ToProto(digest, *output.add_trace());
  }
}

void ToProto(const GenerateStart& start, v1::GenerateStart& out) {
  out.set_prompt_tokens(start.prompt_tokens);
  out.set_seed(start.seed);
  out.set_request_id(start.request_id);
}

void ToProto(const GenerateOutcome& outcome, v1::GenerateSummary& out) {
  out.set_finish_reason(ToProto(outcome.finish));
  out.set_prompt_tokens(outcome.prompt_tokens);
  out.set_output_tokens(outcome.output_tokens);
  out.set_seed(outcome.seed);
  out.set_request_id(outcome.request_id);
  const GenerateTimings& timings = outcome.timings;
  v1::GenerateTimings& out_timings = *out.mutable_timings();
  out_timings.set_tokenize_us(timings.tokenize_us);
  out_timings.set_reserve_us(timings.reserve_us);
  out_timings.set_queue_us(timings.queue_us);
  out_timings.set_prefill_us(timings.prefill_us);
  out_timings.set_transfer_us(timings.transfer_us);
  out_timings.set_first_token_us(timings.first_token_us);
  out_timings.set_total_us(timings.total_us);
  out_timings.set_kv_bytes(timings.kv_bytes);
  out_timings.set_prefill_node(timings.prefill_node);
  out_timings.set_decode_node(timings.decode_node);
}

void ToProto(ScoreOutcome& outcome, v1::ScoreResponse& out) {
  out.mutable_token_ids()->Assign(outcome.token_ids.begin(), outcome.token_ids.end());
  out.mutable_token_logprobs()->Swap(outcome.scores.mutable_token_logprobs());
  for (const v1::PositionAlternatives& position : outcome.scores.top()) {
    v1::TokenLogprobs& tokens = *out.add_top();
    for (const v1::Alternative& alternative : position.alternatives()) {
      ToProto(alternative, *tokens.add_tokens());
    }
  }
  for (v1::PositionDigest& digest : *outcome.scores.mutable_trace()) {
    ToProto(digest, *out.add_trace());
  }
}

void ToProto(const ServedModel& model, v1::Model& out) {
  out.set_name(model.name);
  out.set_numerics_id(model.numerics_id);
  out.set_vocabulary(model.vocabulary);
  out.set_max_positions(model.max_positions);
  out.set_kv_bytes_per_token(model.kv_bytes_per_token);
  out.set_has_tokenizer(model.has_tokenizer);
  out.set_has_chat_template(model.has_chat_template);
  out.mutable_end_token_ids()->Assign(model.end_token_ids.begin(), model.end_token_ids.end());
}

}  // namespace headway
