// What becomes of a step's rows: tokens, scores and traces to whom they belong.
#include <utility>

#include "runtime/base/status.h"
#include "runtime/node/node_loop.h"

namespace headway {

void NodeLoop::Deliver() {
  for (const SpanRef& span : spans_) {
    auto found = sequences_.find(span.sequence);
    if (found == sequences_.end()) continue;
    DeliverRows(*found->second, span);
  }
}

void NodeLoop::DeliverRows(Sequence& sequence, const SpanRef& span) {
  if (sequence.trace) {
    for (int i = 0; i < span.count; ++i) {
      sequence.pending_trace.push_back(recorder_.Take(span.first_row + i, sequence.computed + i,
                                                      engine_.logits(span.first_logit_row + i)));
    }
  }
  if (sequence.kind == Sequence::Kind::kScore) {
    if (absl::Status status = DeliverScores(sequence, span); !status.ok()) {
      End(sequence.id, status);
      return;
    }
  }
  sequence.computed += span.count;
  if (sequence.remaining() > 0) return;
  if (sequence.kind == Sequence::Kind::kScore) {
    sequence.score_result.trace = std::move(sequence.pending_trace);
    End(sequence.id, absl::OkStatus());
    return;
  }
  const bool all = span.logits == BatchSpan::Logits::kAll;
  DeliverToken(sequence, span.first_logit_row + (all ? span.count - 1 : 0));
}

void NodeLoop::DeliverToken(Sequence& sequence, int logit_row) {
  const int position = static_cast<int>(sequence.tokens.size());
  absl::StatusOr<TokenEvent> event = chooser_.Choose(engine_.logits(logit_row), sequence.sampling,
                                                     position - sequence.prompt_tokens, position);
  if (!event.ok()) {
    End(sequence.id, event.status());
    return;
  }
  event->trace = std::exchange(sequence.pending_trace, {});
  if (sequence.kind == Sequence::Kind::kPrefill) {
    sequence.computed_nanos = clock_.NowNanos();
    sequence.prefill_result.first = *std::move(event);
    sequence.state = Sequence::State::kSending;
    return;
  }
  const bool last = event->finish != FinishReason::kNone;
  sequence.tokens.push_back(event->token);
  sequence.sink->OnToken(*std::move(event));
  if (last) End(sequence.id, absl::OkStatus());
}

absl::Status NodeLoop::DeliverScores(Sequence& sequence, const SpanRef& span) {
  for (int i = 0; i < span.count; ++i) {
    const size_t position = static_cast<size_t>(sequence.computed) + i;
    if (position + 1 >= sequence.tokens.size()) break;
    HEADWAY_RETURN_IF_ERROR(chooser_.Score(
        engine_.logits(span.first_logit_row + i), sequence.tokens[position + 1], sequence.score_top,
        sequence.score_result.token_logprobs, sequence.score_result.top));
  }
  return absl::OkStatus();
}

}  // namespace headway
