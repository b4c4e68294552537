// Sequences that arrive with their KV: blocks are reserved first, a peer fills them, and decoding
// starts when everything that the sealed manifest names has arrived and agrees.
#include <algorithm>
#include <random>
#include <utility>

#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/cluster/error_details.h"
#include "runtime/node/node_loop.h"

namespace headway {
namespace {

// Unique among all nodes that could push to one another, since a prefill node keeps reservations of
// many decode nodes.
uint64_t NewReservationId() {
  std::random_device device;
  const uint64_t id = (static_cast<uint64_t>(device()) << 32) | device();
  return id == 0 ? 1 : id;
}

absl::Status UnknownReservation(uint64_t id) {
  return WithCause(absl::NotFoundError(absl::StrCat(
                       "reservation ", id,
                       " is not known here: its lease ran out, it was released, or the node has "
                       "started anew")),
                   FailureCause::kReservationLost);
}

}  // namespace

uint64_t NodeLoop::Reserve(ReserveTask task) {
  const Posted what = TaskOf(int64_t{task.prompt_tokens} + task.max_tokens);
  return Post(what, [this, task = std::move(task)](uint64_t id) mutable {
    auto admit = [&]() -> absl::Status {
      HEADWAY_RETURN_IF_ERROR(broken());
      if (options_.role != NodeRole::kDecode) {
        return absl::FailedPreconditionError(absl::StrCat("Reserve needs a decode node; this is a ",
                                                          NodeRoleName(options_.role), " node"));
      }
      const int64_t total = static_cast<int64_t>(task.prompt_tokens) + task.max_tokens;
      if (task.prompt_tokens < 1 || task.max_tokens < 1 || total > engine_.limits().max_positions) {
        return absl::InvalidArgumentError(
            absl::StrCat("reservation of ", task.prompt_tokens, " prompt tokens and max_tokens ",
                         task.max_tokens, "; the model has ", engine_.limits().max_positions,
                         " positions on this node"));
      }
      if (by_reservation_.contains(task.reservation_id)) {
        return absl::AlreadyExistsError(
            absl::StrCat("reservation ", task.reservation_id, " exists already"));
      }
      auto sequence = std::make_unique<Sequence>();
      sequence->id = id;
      sequence->kind = Sequence::Kind::kDecode;
      sequence->reservation.reservation_id = task.reservation_id;
      sequence->request_id = std::move(task.request_id);
      sequence->prompt_tokens = task.prompt_tokens;
      sequence->sampling.max_tokens = task.max_tokens;
      sequence->reservation.lease_ms = LeaseMillis(task.lease_ms);
      sequence->reserve_done = task.done;
      HEADWAY_RETURN_IF_ERROR(Enqueue(std::move(sequence)));
      // Known from now on, not from the grant on: the same name must not wait twice.
      if (task.reservation_id != 0) by_reservation_[task.reservation_id] = id;
      return absl::OkStatus();
    };
    if (absl::Status status = admit(); !status.ok()) task.done(status);
  });
}

void NodeLoop::GrantReservation(Sequence& sequence) {
  sequence.state = Sequence::State::kReserved;
  ReservationGrant& grant = sequence.reservation;
  if (grant.reservation_id == 0) {
    do {
      grant.reservation_id = NewReservationId();
    } while (grant.reservation_id == 0 || by_reservation_.contains(grant.reservation_id));
  }
  grant.epoch = options_.epoch;
  grant.degree = static_cast<int>(rank_addresses_.size());
  grant.rank_addresses = rank_addresses_;
  by_reservation_[grant.reservation_id] = sequence.id;
  sequence.lease_deadline_nanos = clock_.NowNanos() + grant.lease_ms * 1'000'000;
  sequence.transfer_open = true;
  // Only the prompt's blocks can be filled by a peer.
  std::vector<int32_t> table = sequence.blocks.ids();
  table.resize(BlocksFor(sequence.prompt_tokens));
  command_.opens.push_back({.reservation_id = grant.reservation_id,
                            .epoch = grant.epoch,
                            .block_table = std::move(table)});
  granted_.push_back(sequence.id);
}

void NodeLoop::AnswerGrants() {
  for (uint64_t id : std::exchange(granted_, {})) {
    auto found = sequences_.find(id);
    if (found == sequences_.end()) continue;
    auto done = std::exchange(found->second->reserve_done, nullptr);
    if (done) done(found->second->reservation);
  }
}

uint64_t NodeLoop::Decode(DecodeTask task) {
  return Post({}, [this, task = std::move(task)](uint64_t handle) mutable {
    TakeUp(handle, std::move(task));
  });
}

void NodeLoop::TakeUp(uint64_t handle, DecodeTask task) {
  auto check = [&]() -> absl::StatusOr<SequencePtr*> {
    HEADWAY_RETURN_IF_ERROR(broken());
    auto known = by_reservation_.find(task.manifest.reservation_id);
    if (known == by_reservation_.end()) {
      return UnknownReservation(task.manifest.reservation_id);
    }
    SequencePtr& sequence = sequences_.at(known->second);
    if (sequence->state == Sequence::State::kWaiting) {
      return absl::FailedPreconditionError(absl::StrCat(
          "reservation ", task.manifest.reservation_id, " still waits for its blocks"));
    }
    if (sequence->kind != Sequence::Kind::kDecode ||
        sequence->state != Sequence::State::kReserved) {
      return absl::FailedPreconditionError(
          absl::StrCat("reservation ", task.manifest.reservation_id, " is already being decoded"));
    }
    if (task.manifest.epoch != sequence->reservation.epoch) {
      return absl::FailedPreconditionError(absl::StrCat(
          "reservation ", task.manifest.reservation_id, " is of epoch ",
          sequence->reservation.epoch, ", the manifest of epoch ", task.manifest.epoch));
    }
    if (task.manifest.ranks.size() != rank_addresses_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the manifest names ", task.manifest.ranks.size(), " ranks, this node has ",
                       rank_addresses_.size()));
    }
    // Every block of the prompt, in every layer and head of every rank: a manifest that names fewer
    // would agree with itself and leave old blocks in their places.
    const int blocks = BlocksFor(sequence->prompt_tokens) - sequence->reservation.first_block;
    for (size_t rank = 0; rank < task.manifest.ranks.size(); ++rank) {
      const int64_t runs = int64_t{engine_.config().layers} * blocks *
                           static_cast<int64_t>(engine_.plan().ranks[rank].kv_heads.size());
      if (task.manifest.ranks[rank].runs != runs) {
        return absl::InvalidArgumentError(
            absl::StrCat("the manifest names ", task.manifest.ranks[rank].runs, " runs for rank ",
                         rank, ", the prompt has ", runs));
      }
    }
    if (static_cast<int>(task.prompt.size()) != sequence->prompt_tokens ||
        task.sampling.max_tokens > sequence->sampling.max_tokens) {
      return absl::InvalidArgumentError(
          absl::StrCat("reserved for ", sequence->prompt_tokens, " prompt tokens and max_tokens ",
                       sequence->sampling.max_tokens, ", asked to decode ", task.prompt.size(),
                       " and ", task.sampling.max_tokens));
    }
    HEADWAY_RETURN_IF_ERROR(CheckSequence(task.prompt, task.sampling));
    if (!InVocabulary(task.first_token)) {
      return OutsideVocabulary("the first token", task.first_token);
    }
    return &sequence;
  };
  absl::StatusOr<SequencePtr*> checked = check();
  if (!checked.ok()) {
    task.sink->OnDone(checked.status());
    return;
  }
  Sequence& sequence = ***checked;
  sequence.request_id = std::move(task.request_id);
  sequence.tokens = std::move(task.prompt);
  sequence.tokens.reserve(sequence.prompt_tokens + task.sampling.max_tokens);
  sequence.tokens.push_back(task.first_token);
  sequence.sampling = std::move(task.sampling);
  sequence.trace = task.trace;
  sequence.manifest = std::move(task.manifest);
  sequence.sink = task.sink;
  sequence.refused.assign(rank_addresses_.size(), 0);
  sequence.state = Sequence::State::kArriving;
  // The stream's handle is the one that the caller can cancel: the sequence answers to it from now
  // on.
  Rename(sequence.id, handle);
}

void NodeLoop::Rename(uint64_t from, uint64_t to) {
  auto node = sequences_.extract(from);
  node.key() = to;
  node.mapped()->id = to;
  by_reservation_[node.mapped()->reservation.reservation_id] = to;
  std::replace(running_.begin(), running_.end(), from, to);
  sequences_.insert(std::move(node));
}

void NodeLoop::HandleArrival(Sequence& sequence, std::span<const ReceiveReport> ranks) {
  int64_t bytes = 0;
  bool complete = true;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const ReceiveReport& report = ranks[rank];
    counters_.kv_messages_refused += report.refused - sequence.refused[rank];
    sequence.refused[rank] = report.refused;
    if (report.code != 0) {
      End(sequence.id,
          absl::Status(static_cast<absl::StatusCode>(report.code),
                       absl::StrCat("KV transfer to decode rank ", rank, ": ", report.message)));
      return;
    }
    if (report.received.runs > sequence.manifest.ranks[rank].runs ||
        (report.received.runs == sequence.manifest.ranks[rank].runs &&
         report.received.digest != sequence.manifest.ranks[rank].digest)) {
      End(sequence.id, absl::DataLossError(absl::StrCat(
                           "KV transfer to decode rank ", rank, ": ", report.received.runs,
                           " runs arrived that differ from the ",
                           sequence.manifest.ranks[rank].runs, " of the sealed manifest")));
      return;
    }
    complete &= report.received == sequence.manifest.ranks[rank];
    bytes += report.bytes;
  }
  if (!complete) return;
  counters_.kv_bytes_received += bytes;
  // From here on the blocks are this node's own: nothing may write them from outside.
  command_.closes.push_back(sequence.reservation.reservation_id);
  sequence.transfer_open = false;
  by_reservation_.erase(sequence.reservation.reservation_id);
  sequence.reservation.reservation_id = 0;
  sequence.computed = sequence.prompt_tokens;
  sequence.state = Sequence::State::kComputing;
}

void NodeLoop::ExpireLeases() {
  const int64_t now = clock_.NowNanos();
  std::vector<uint64_t> expired;
  for (const auto& [id, sequence] : sequences_) {
    const bool leased = sequence->kind == Sequence::Kind::kPrefill ||
                        sequence->state == Sequence::State::kReserved ||
                        sequence->state == Sequence::State::kArriving;
    if (leased && now >= sequence->lease_deadline_nanos) expired.push_back(id);
  }
  for (uint64_t id : expired) {
    const Sequence& sequence = *sequences_.at(id);
    End(id, WithCause(absl::DeadlineExceededError(absl::StrCat(
                          "the lease of reservation ", sequence.reservation.reservation_id, ", ",
                          sequence.reservation.lease_ms, " ms, ran out before its KV had arrived")),
                      FailureCause::kReservationLost));
  }
}

int64_t NodeLoop::LeaseMillis(int64_t asked) const {
  return asked <= 0 ? options_.max_lease_ms : std::min(asked, options_.max_lease_ms);
}

void NodeLoop::Renew(RenewTask task) {
  Post({}, [this, task = std::move(task)](uint64_t) {
    const auto renew = [&]() -> absl::StatusOr<int64_t> {
      HEADWAY_RETURN_IF_ERROR(broken());
      const auto known = by_reservation_.find(task.reservation_id);
      if (known == by_reservation_.end()) return UnknownReservation(task.reservation_id);
      Sequence& sequence = *sequences_.at(known->second);
      if (task.epoch != sequence.reservation.epoch) return UnknownReservation(task.reservation_id);
      sequence.reservation.lease_ms = LeaseMillis(task.lease_ms);
      sequence.lease_deadline_nanos = clock_.NowNanos() + sequence.reservation.lease_ms * 1'000'000;
      return sequence.reservation.lease_ms;
    };
    task.done(renew());
  });
}

void NodeLoop::Release(uint64_t reservation_id, uint64_t epoch) {
  Post({}, [this, reservation_id, epoch](uint64_t) {
    if (!broken().ok() || options_.role != NodeRole::kDecode) return;
    if (epoch != 0 && epoch != options_.epoch) return;
    auto known = by_reservation_.find(reservation_id);
    if (known == by_reservation_.end()) return;
    const Sequence::State state = sequences_.at(known->second)->state;
    if (state != Sequence::State::kReserved && state != Sequence::State::kWaiting) return;
    End(known->second, absl::OkStatus());
  });
}

}  // namespace headway
