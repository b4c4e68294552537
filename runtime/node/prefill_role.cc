// Sequences that leave with their KV: computed here in chunks, pushed layer by layer to the blocks
// that a decode node reserved, sealed with a manifest.
#include <utility>

#include "runtime/base/status.h"
#include "runtime/cluster/error_details.h"
#include "runtime/node/node_loop.h"

namespace headway {
namespace {

// The loop ends a send whose lease has run out; a rank has no deadline of its own, since renewals
// do not reach it.
constexpr int64_t kUntilEnded = int64_t{1} << 60;

// What a rank's sender says of a transfer that failed. A peer that is gone, takes nothing, or not
// in time, is no fault of this node.
absl::Status SendFailure(absl::StatusCode code, const std::string& text) {
  const bool unreachable = code == absl::StatusCode::kUnavailable ||
                           code == absl::StatusCode::kDeadlineExceeded ||
                           code == absl::StatusCode::kResourceExhausted;
  return unreachable ? WithCause(absl::UnavailableError(text), FailureCause::kTargetUnreachable)
                     : absl::Status(code, text);
}

}  // namespace

uint64_t NodeLoop::Prefill(PrefillTask task) {
  const Posted what = TaskOf(static_cast<int64_t>(task.prompt.size()));
  return Post(what, [this, task = std::move(task)](uint64_t id) mutable {
    auto admit = [&]() -> absl::Status {
      if (options_.role != NodeRole::kPrefill) {
        return absl::FailedPreconditionError(absl::StrCat(
            "Prefill needs a prefill node; this is a ", NodeRoleName(options_.role), " node"));
      }
      HEADWAY_RETURN_IF_ERROR(broken());
      HEADWAY_RETURN_IF_ERROR(CheckSequence(task.prompt, task.sampling));
      const ReservationGrant& target = task.target;
      if (target.reservation_id == 0 || target.degree < 1 ||
          static_cast<int>(target.rank_addresses.size()) != target.degree) {
        return absl::InvalidArgumentError(
            absl::StrCat("prefill target: reservation ", target.reservation_id, " of degree ",
                         target.degree, " with ", target.rank_addresses.size(), " rank addresses"));
      }
      // The last block is computed here: the first token comes of it.
      const int blocks = BlocksFor(static_cast<int>(task.prompt.size()));
      if (target.first_block < 0 || target.first_block >= blocks) {
        return absl::InvalidArgumentError(absl::StrCat("prefill target: first_block is ",
                                                       target.first_block, ", the prompt has ",
                                                       blocks, " blocks"));
      }
      HEADWAY_RETURN_IF_ERROR(MakeShardPlan(engine_.config(), target.degree).status());
      if (by_reservation_.contains(target.reservation_id)) {
        return absl::AlreadyExistsError(absl::StrCat(
            "a prefill for reservation ", target.reservation_id, " is already under way"));
      }
      auto sequence = std::make_unique<Sequence>();
      sequence->id = id;
      sequence->kind = Sequence::Kind::kPrefill;
      sequence->request_id = std::move(task.request_id);
      sequence->prompt_tokens = static_cast<int>(task.prompt.size());
      sequence->tokens = std::move(task.prompt);
      sequence->sampling = std::move(task.sampling);
      sequence->trace = task.trace;
      sequence->pushed_blocks = target.first_block;
      const uint64_t reservation = target.reservation_id;
      sequence->reservation = std::move(task.target);
      sequence->reservation.lease_ms = LeaseMillis(sequence->reservation.lease_ms);
      sequence->lease_deadline_nanos =
          clock_.NowNanos() + sequence->reservation.lease_ms * 1'000'000;
      sequence->prefill_done = task.done;
      HEADWAY_RETURN_IF_ERROR(Enqueue(std::move(sequence)));
      by_reservation_[reservation] = id;
      return absl::OkStatus();
    };
    if (absl::Status status = admit(); !status.ok()) task.done(status);
  });
}

void NodeLoop::BeginPush(Sequence& sequence) {
  const ReservationGrant& target = sequence.reservation;
  sequence.state = Sequence::State::kComputing;
  sequence.transfer_open = true;
  command_.begin_sends.push_back({.reservation_id = target.reservation_id,
                                  .epoch = target.epoch,
                                  .target_degree = target.degree,
                                  .peer_addresses = target.rank_addresses,
                                  .block_table = sequence.blocks.ids(),
                                  .first_block = target.first_block,
                                  .lease_nanos = kUntilEnded});
}

void NodeLoop::HandleDeparture(Sequence& sequence, std::span<const SendReport> ranks) {
  bool done = true;
  int64_t bytes = 0;
  std::vector<RankManifest> parts(sequence.reservation.degree);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const SendReport& report = ranks[rank];
    if (report.code != 0) {
      End(sequence.id,
          SendFailure(static_cast<absl::StatusCode>(report.code),
                      absl::StrCat("KV transfer from prefill rank ", rank, ": ", report.message)));
      return;
    }
    done &= report.done != 0;
    bytes += report.bytes;
    for (int target = 0; target < sequence.reservation.degree; ++target)
      parts[target].Add(report.parts[target]);
  }
  if (!done || sequence.state != Sequence::State::kSending) return;
  // Past its lease only a renewal that is on its way saves it, which the next turn sees.
  if (clock_.NowNanos() >= sequence.lease_deadline_nanos) return;
  counters_.kv_bytes_sent += bytes;
  PrefillResult& result = sequence.prefill_result;
  result.kv_bytes = bytes;
  result.manifest = {.reservation_id = sequence.reservation.reservation_id,
                     .epoch = sequence.reservation.epoch,
                     .ranks = std::move(parts)};
  result.timings = {.queue_us = (sequence.started_nanos - sequence.enqueued_nanos) / 1000,
                    .compute_us = (sequence.computed_nanos - sequence.started_nanos) / 1000,
                    .transfer_us = (clock_.NowNanos() - sequence.computed_nanos) / 1000};
  End(sequence.id, absl::OkStatus());
}

}  // namespace headway
