#include "runtime/server/node_translation.h"

#include "absl/strings/str_cat.h"

namespace headway {

absl::Status NumericsMismatch(const std::string& asked, const std::string& own) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the request is for numerics id ", asked, ", this node serves ", own,
      ": nodes of one cluster need the same checkpoint, KV dtype, activations and version"));
}

v1::NodeRole ToProto(NodeRole role) {
  switch (role) {
    case NodeRole::kPrefill:
      return v1::NODE_ROLE_PREFILL;
    case NodeRole::kDecode:
      return v1::NODE_ROLE_DECODE;
    case NodeRole::kMixed:
      return v1::NODE_ROLE_MIXED;
  }
  return v1::NODE_ROLE_UNSPECIFIED;
}

namespace {

v1::TokenFinish ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return v1::TOKEN_FINISH_NONE;
    case FinishReason::kStop:
      return v1::TOKEN_FINISH_STOP;
    case FinishReason::kLength:
      return v1::TOKEN_FINISH_LENGTH;
    case FinishReason::kCancelled:
      return v1::TOKEN_FINISH_CANCELLED;
  }
  return v1::TOKEN_FINISH_NONE;
}

void ToProto(const TokenEvent::Alternative& alternative, v1::Alternative& out) {
  out.set_id(alternative.token);
  out.set_logprob(alternative.logprob);
}

}  // namespace

void ToProto(const PositionTrace& trace, v1::PositionDigest& out) {
  out.set_position(trace.position);
  out.mutable_layers()->Add(trace.layers.begin(), trace.layers.end());
  out.set_logits(trace.logits);
}

void ToProto(const TokenEvent& event, v1::Token& out) {
  out.set_index(event.index);
  out.set_id(event.token);
  out.set_logprob(event.logprob);
  for (const auto& alternative : event.top) ToProto(alternative, *out.add_top());
  out.set_finish(ToProto(event.finish));
  for (const PositionTrace& trace : event.trace) ToProto(trace, *out.add_trace());
}

void ToProto(const ReservationGrant& grant, v1::Reservation& out) {
  out.set_reservation_id(grant.reservation_id);
  out.set_epoch(grant.epoch);
  out.set_lease_ms(static_cast<uint32_t>(grant.lease_ms));
  out.set_degree(grant.degree);
  for (const std::string& address : grant.rank_addresses) out.add_rank_addresses(address);
  out.set_first_block(grant.first_block);
}

void ToProto(const PrefillResult& result, v1::PrefillReply& out) {
  ToProto(result.first, *out.mutable_first());
  v1::SealedManifest& manifest = *out.mutable_manifest();
  manifest.set_reservation_id(result.manifest.reservation_id);
  manifest.set_epoch(result.manifest.epoch);
  for (const RankManifest& rank : result.manifest.ranks) {
    v1::RankManifestEntry& entry = *manifest.add_ranks();
    entry.set_runs(rank.runs);
    entry.set_digest(rank.digest);
  }
  out.set_kv_bytes(result.kv_bytes);
  out.mutable_timings()->set_queue_us(result.timings.queue_us);
  out.mutable_timings()->set_compute_us(result.timings.compute_us);
  out.mutable_timings()->set_transfer_us(result.timings.transfer_us);
}

void ToProto(const ScoreResult& result, v1::ScoreTokensReply& out) {
  out.mutable_token_logprobs()->Add(result.token_logprobs.begin(), result.token_logprobs.end());
  for (const auto& position : result.top) {
    v1::PositionAlternatives& alternatives = *out.add_top();
    for (const auto& alternative : position) ToProto(alternative, *alternatives.add_alternatives());
  }
  for (const PositionTrace& trace : result.trace) ToProto(trace, *out.add_trace());
}

void ToProto(const NodeLoad& load, v1::NodeLoad& out) {
  out.set_free_blocks(load.free_blocks);
  out.set_total_blocks(load.total_blocks);
  out.set_running(load.running);
  out.set_waiting(load.waiting);
  out.set_reservations(load.reservations);
  out.set_kv_bytes_received(load.kv_bytes_received);
  out.set_kv_bytes_sent(load.kv_bytes_sent);
  out.set_kv_projections(load.kv_projections);
  out.set_kv_messages_refused(load.kv_messages_refused);
  out.set_stalled_ms(load.stalled_ms);
  out.set_waiting_blocks(load.waiting_blocks);
}

SamplingParams FromProto(const v1::NodeSampling& sampling) {
  return {.temperature = sampling.temperature(),
          .top_k = sampling.top_k(),
          .top_p = sampling.top_p(),
          .seed = sampling.seed(),
          .max_tokens = sampling.max_tokens(),
          .min_tokens = sampling.min_tokens(),
          .stop_token_ids = {sampling.stop_token_ids().begin(), sampling.stop_token_ids().end()},
          .ignore_eos = sampling.ignore_eos(),
          .logprobs = sampling.logprobs()};
}

ReservationGrant FromProto(const v1::Reservation& reservation) {
  return {
      .reservation_id = reservation.reservation_id(),
      .epoch = reservation.epoch(),
      .lease_ms = reservation.lease_ms(),
      .degree = reservation.degree(),
      .rank_addresses = {reservation.rank_addresses().begin(), reservation.rank_addresses().end()},
      .first_block = reservation.first_block()};
}

Manifest FromProto(const v1::SealedManifest& manifest) {
  Manifest out = {.reservation_id = manifest.reservation_id(), .epoch = manifest.epoch()};
  for (const v1::RankManifestEntry& rank : manifest.ranks()) {
    out.ranks.push_back({.runs = rank.runs(), .digest = rank.digest()});
  }
  return out;
}

}  // namespace headway
