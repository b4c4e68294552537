// What a request goes through, start to end.
#include "runtime/router/router.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/cluster/error_details.h"
#include "runtime/kv/block_pool.h"
#include "runtime/request/validate.h"
#include "runtime/router/cluster_view.h"
#include "runtime/router/leased_prefill.h"
#include "runtime/router/node_messages.h"
#include "runtime/router/output_text.h"

namespace headway {
namespace {

uint64_t RandomBits() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

// Below 2^53, which every JSON reader holds exactly.
uint64_t RandomSeed() { return RandomBits() >> 11; }

std::string RandomRequestId() {
  return absl::StrCat("r-", absl::Hex(RandomBits(), absl::kZeroPad16));
}

// Reservations that one request may lose before it gives up.
constexpr int kMaxLostReservations = 3;

// Whether an error is ours, not the client's and not that of a machine that is gone.
bool IsFault(const absl::Status& status) {
  return absl::IsInternal(status) || absl::IsDataLoss(status) || absl::IsUnknown(status);
}

// Whether another node may do what one could not: one that is gone or has no room.
bool MayTryAnother(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
}

bool Contains(const std::vector<int>& indices, int index) {
  return std::find(indices.begin(), indices.end(), index) != indices.end();
}

// Which of a request's failures its client hears of when no node is left: that a node was full, and
// when to come again, rather than that another was gone.
absl::Status WorthTelling(const absl::Status& before, const absl::Status& now) {
  return absl::IsResourceExhausted(before) ? before : now;
}

// Blocks on a decode node, from the moment that they are asked for until a Decode call has taken
// them up. Gives them back otherwise, whatever ended the request: even where it ended before the
// node's answer came, since the name was chosen here. What Decode has taken up is left alone by the
// node.
class HeldReservation {
 public:
  HeldReservation(NodeClient& node, double release_seconds)
      : node_(node), release_seconds_(release_seconds) {
    reservation_.set_reservation_id(RandomBits() | 1);
  }
  ~HeldReservation() {
    if (!held_) return;
    // The request's own scope may have ended: that is why its blocks are given back.
    CallScope scope(CallScope::DeadlineAfter(release_seconds_));
    v1::ReleaseRequest request;
    request.set_reservation_id(reservation_.reservation_id());
    request.set_epoch(reservation_.epoch());
    if (absl::Status status = node_.Release(scope, request); !status.ok()) {
      LogWarning(absl::StrCat(
          "reservation ", reservation_.reservation_id(), " of node ", node_.address(),
          " was not given back and waits for the end of its lease: ", status.ToString()));
    }
  }
  HeldReservation(const HeldReservation&) = delete;
  HeldReservation& operator=(const HeldReservation&) = delete;

  absl::Status Take(CallScope& scope, v1::ReserveRequest request) {
    request.set_reservation_id(reservation_.reservation_id());
    absl::StatusOr<v1::Reservation> reserved = node_.Reserve(scope, request);
    // A node that refuses holds nothing; one whose answer nobody waited for may.
    held_ = reserved.ok() || absl::IsCancelled(reserved.status()) ||
            absl::IsDeadlineExceeded(reserved.status());
    HEADWAY_RETURN_IF_ERROR(reserved.status());
    reservation_ = *std::move(reserved);
    return Annotate(CheckReservation(reservation_, request.reservation_id()),
                    absl::StrCat("node ", node_.address()));
  }

  const v1::Reservation& get() const { return reservation_; }
  // Decode has the blocks and frees them when its call ends.
  void SetTakenUp() { held_ = false; }

 private:
  NodeClient& node_;
  const double release_seconds_;
  v1::Reservation reservation_;  // its name alone, until the node has answered
  bool held_ = false;
};

}  // namespace

// One Generate call, from its text to its summary.
class Router::Generation {
 public:
  Generation(Router& router, CallScope& scope, const GenerateInput& input, DeltaSink& sink)
      : router_(router), scope_(scope), input_(input), sink_(sink), start_nanos_(Now()) {}

  absl::StatusOr<GenerateOutcome> Run() {
    HEADWAY_RETURN_IF_ERROR(Prepare());
    outcome_.timings.tokenize_us = MicrosSince(start_nanos_);
    HEADWAY_RETURN_IF_ERROR(sink_.Begin({.prompt_tokens = outcome_.prompt_tokens,
                                         .seed = outcome_.seed,
                                         .request_id = outcome_.request_id}));
    while (true) {
      const absl::Status status = Attempt();
      if (status.ok()) break;
      // Another node may do what one could not, as long as the client has nothing yet.
      if (!attempt_failed_ || outcome_.output_tokens > 0) return status;
    }
    outcome_.timings.total_us = MicrosSince(start_nanos_);
    return std::move(outcome_);
  }

  const std::string& request_id() const { return request_.id; }

 private:
  // Which of the nodes of transfers that failed in this request.
  struct Suspects {
    bool prefills = false, decodes = false;
  };

  // Template, tokens, checks, seed: after this the request is one that every node takes.
  absl::Status Prepare() {
    request_ = input_.request;
    if (request_.id.empty()) request_.id = RandomRequestId();
    const ClusterView view(router_.nodes_.Snapshot());
    HEADWAY_ASSIGN_OR_RETURN(ClusterLimits limits, view.GenerateLimits());
    HEADWAY_ASSIGN_OR_RETURN(request_.prompt,
                             router_.encoder_.Encode(input_.prompt, limits.model.max_positions));
    limits.model.has_tokenizer = router_.encoder_.tokenizer() != nullptr;
    const int64_t prompt_tokens = static_cast<int64_t>(request_.prompt.size());
    request_.sampling.max_tokens =
        input_.max_tokens ? *input_.max_tokens : DefaultMaxTokens(prompt_tokens, limits.model);
    request_.sampling.seed = input_.seed ? *input_.seed : router_.options_.new_seed();
    HEADWAY_RETURN_IF_ERROR(ValidateGenerate(request_, limits.model));
    demand_.prompt_blocks = BlocksFor(prompt_tokens);
    demand_.all_blocks = BlocksFor(prompt_tokens + request_.sampling.max_tokens);
    if (demand_.prompt_blocks > limits.prompt_blocks) {
      return absl::ResourceExhaustedError(
          absl::StrCat("prompt has ", prompt_tokens, " tokens, which take ", demand_.prompt_blocks,
                       " KV blocks; the largest prefill node has ", limits.prompt_blocks));
    }
    HEADWAY_ASSIGN_OR_RETURN(
        text::StopMatcher stops,
        text::StopMatcher::Create(request_.stop, request_.include_stop_string));
    text_.emplace(router_.encoder_.tokenizer(), request_.include_control_tokens, std::move(stops),
                  request_.sampling.min_tokens);
    outcome_.request_id = request_.id;
    outcome_.prompt_tokens = static_cast<int>(prompt_tokens);
    outcome_.seed = request_.sampling.seed;
    return absl::OkStatus();
  }

  // Places the request and runs it to its end.
  absl::Status Attempt() {
    attempt_failed_ = false;
    // One of the two nodes of a failed transfer is well, and which is not known: both are passed
    // over, or else one of them. Each attempt has a node that had no part in any before, so they
    // come to an end.
    for (const Suspects without : {Suspects{.prefills = true, .decodes = true},
                                   Suspects{.decodes = true}, Suspects{.prefills = true}}) {
      const ClusterView view = Without(without);
      const std::optional<PlacementNode> decode = ChooseDecode(view.nodes(), demand_);
      if (!decode) continue;
      return decode->role == NodeRole::kMixed ? RunMixed(decode->index) : RunPair(decode->index);
    }
    return NoNode();
  }

  // The nodes at this moment, without those that failed in this request, the suspects, and
  // `others`.
  ClusterView Without(Suspects suspects, std::vector<int> others = {}) const {
    std::vector<int> excluded = std::move(others);
    const auto exclude = [&](const std::vector<int>& nodes) {
      excluded.insert(excluded.end(), nodes.begin(), nodes.end());
    };
    exclude(failed_);
    if (suspects.prefills) exclude(suspect_prefills_);
    if (suspects.decodes) exclude(suspect_decodes_);
    return ClusterView(router_.nodes_.Snapshot(), excluded);
  }

  absl::Status NoNode() const {
    return Without({.prefills = true, .decodes = true}).NoNode("generate", last_failure_);
  }

  // No suspect, and rather none that was found not to reach this decode node of late, by any
  // request: pairs that nobody has tried also show which node is at fault. To a decode node that is
  // no suspect itself, a suspect rather than nobody.
  std::optional<PlacementNode> ChoosePrefillFor(int decode_index) const {
    auto chosen = ChoosePrefill(
        Without({.prefills = true}, router_.nodes_.OutOfReachFor(decode_index)).nodes(), demand_);
    if (!chosen) chosen = ChoosePrefill(Without({.prefills = true}).nodes(), demand_);
    if (!chosen && !Contains(suspect_decodes_, decode_index)) {
      chosen = ChoosePrefill(Without({}).nodes(), demand_);
    }
    return chosen;
  }

  // A mixed node: prompt in, tokens out.
  absl::Status RunMixed(int index) {
    NodeClient& node = router_.nodes_.client(index);
    outcome_.timings.prefill_node = outcome_.timings.decode_node = node.address();
    router_.nodes_.NoteReserved(index, static_cast<int>(demand_.all_blocks));
    const std::unique_ptr<TokenStream> stream =
        node.Generate(scope_, GenerateMessage(request_, router_.nodes_.numerics_id()));
    return Stream(index, *stream, nullptr);
  }

  // Decode node: room first. Prefill node: the prompt, its KV to that room, and the first token.
  // Decode node: the others.
  absl::Status RunPair(int decode_index) {
    NodeClient& decode = router_.nodes_.client(decode_index);
    outcome_.timings.decode_node = decode.address();
    const int64_t reserve_nanos = Now();
    // It may wait there, where others should not join it.
    router_.nodes_.NoteReserved(decode_index, static_cast<int>(demand_.all_blocks));
    HeldReservation reservation(decode, router_.options_.release_seconds);
    const absl::Status reserved = reservation.Take(
        scope_, ReserveMessage(request_, router_.nodes_.numerics_id(), LeaseMillis()));
    if (!reserved.ok()) return Failed(decode_index, reserved);
    outcome_.timings.reserve_us = MicrosSince(reserve_nanos);

    // The reservation may have waited for room.
    const std::optional<PlacementNode> chosen = ChoosePrefillFor(decode_index);
    if (!chosen) return NoNode();
    NodeClient& prefill = router_.nodes_.client(chosen->index);
    outcome_.timings.prefill_node = prefill.address();
    router_.nodes_.NoteReserved(chosen->index, static_cast<int>(demand_.prompt_blocks));
    auto [prefilled, decode_failed] =
        PrefillUnderLease(scope_, prefill, decode,
                          PrefillMessage(request_, router_.nodes_.numerics_id(), reservation.get()),
                          reservation.get().lease_ms());
    if (decode_failed) return Failed(decode_index, prefilled.status());
    if (!prefilled.ok()) return PrefillFailed(chosen->index, decode_index, prefilled.status());
    router_.nodes_.ReportReached(chosen->index, decode_index);
    HEADWAY_RETURN_IF_ERROR(At(prefill, CheckPrefilled(*prefilled, reservation.get())));
    const absl::StatusOr<FinishReason> first_finish = FinishOf(prefilled->first());
    if (!first_finish.ok()) return At(prefill, first_finish.status());
    outcome_.timings.queue_us = prefilled->timings().queue_us();
    outcome_.timings.prefill_us = prefilled->timings().compute_us();
    outcome_.timings.transfer_us = prefilled->timings().transfer_us();
    outcome_.timings.kv_bytes = prefilled->kv_bytes();

    // The decode node begins while the first token is on its way to the client.
    std::unique_ptr<TokenStream> stream;
    if (*first_finish == FinishReason::kNone) {
      stream = decode.Decode(scope_, DecodeMessage(request_, *prefilled));
    }
    v1::TokenBatch first;
    *first.add_tokens() = std::move(*prefilled->mutable_first());
    HEADWAY_RETURN_IF_ERROR(Deliver(prefill, first));
    if (outcome_.finish != FinishReason::kNone) return absl::OkStatus();
    return Stream(decode_index, *stream, &reservation);
  }

  // A node's tokens to the client, until the last one or a stop string. Leaving early ends the
  // node's call, which frees what it held.
  absl::Status Stream(int index, TokenStream& stream, HeldReservation* reservation) {
    NodeClient& node = router_.nodes_.client(index);
    v1::TokenBatch batch;
    while (outcome_.finish == FinishReason::kNone) {
      const absl::StatusOr<bool> more = stream.Read(batch);
      if (!more.ok()) return Failed(index, more.status());
      if (!*more) {
        return absl::InternalError(absl::StrCat("node ", node.address(), " ended its stream after ",
                                                outcome_.output_tokens,
                                                " tokens without a last one"));
      }
      if (reservation != nullptr) reservation->SetTakenUp();
      HEADWAY_RETURN_IF_ERROR(Deliver(node, batch));
    }
    // After its last token a call is about to end by itself, and need not be cancelled.
    if (!text_->stopped()) stream.Read(batch).IgnoreError();
    return absl::OkStatus();
  }

  // Tokens to text to the client.
  absl::Status Deliver(NodeClient& node, v1::TokenBatch& batch) {
    GenerateDelta delta;
    for (v1::Token& token : *batch.mutable_tokens()) {
      if (token.index() != outcome_.output_tokens) {
        return absl::InternalError(absl::StrCat("node ", node.address(), " sent token ",
                                                token.index(), " where token ",
                                                outcome_.output_tokens, " was due"));
      }
      if (outcome_.output_tokens == 0) {
        outcome_.timings.first_token_us = MicrosSince(start_nanos_);
      }
      ++outcome_.output_tokens;
      const absl::StatusOr<FinishReason> finish = FinishOf(token);
      if (!finish.ok()) return At(node, finish.status());
      outcome_.finish = *finish;
      delta.text += text_->Take(token.id());
      delta.tokens.push_back(std::move(token));
      if (text_->stopped()) outcome_.finish = FinishReason::kStop;
      if (outcome_.finish != FinishReason::kNone) {
        delta.text += text_->Finish();
        break;
      }
    }
    return sink_.Write(std::move(delta));
  }

  // What is wrong with a node's answer, with its name.
  static absl::Status At(const NodeClient& node, const absl::Status& status) {
    return Annotate(status, absl::StrCat("node ", node.address()));
  }

  // A prefill that failed may be the fault of where its KV should have gone.
  absl::Status PrefillFailed(int prefill_index, int decode_index, const absl::Status& status) {
    if (!absl::IsUnavailable(status) || CauseOf(status) != FailureCause::kTargetUnreachable) {
      return Failed(prefill_index, status);
    }
    router_.nodes_.ReportUnreachable(prefill_index, decode_index, status);
    attempt_failed_ = true;
    suspect_prefills_.push_back(prefill_index);
    suspect_decodes_.push_back(decode_index);
    last_failure_ = WorthTelling(last_failure_, status);
    return status;
  }

  // A reservation that ran out is no node's fault: the request may reserve again, on any node.
  absl::Status ReservationLost(const absl::Status& status) {
    attempt_failed_ = ++lost_reservations_ < kMaxLostReservations;
    last_failure_ = WorthTelling(last_failure_, status);
    return absl::UnavailableError(
        absl::StrCat("generate: the request's KV reservation was lost, for the ",
                     lost_reservations_, ". time; send the request again: ", status.message()));
  }

  // Notes that a node failed.
  absl::Status Failed(int index, const absl::Status& status) {
    if (CauseOf(status) == FailureCause::kReservationLost) return ReservationLost(status);
    router_.nodes_.ReportFailure(index, status);
    if (MayTryAnother(status)) {
      attempt_failed_ = true;
      failed_.push_back(index);
      last_failure_ = WorthTelling(last_failure_, status);
    }
    return status;
  }

  // No longer than the request itself may take.
  uint32_t LeaseMillis() const {
    const std::chrono::duration<double> left = scope_.deadline() - std::chrono::system_clock::now();
    const double seconds = std::clamp(left.count(), 0.001, router_.options_.lease_seconds);
    return static_cast<uint32_t>(seconds * 1000);
  }

  int64_t Now() const { return router_.clock_.NowNanos(); }
  int64_t MicrosSince(int64_t nanos) const { return (Now() - nanos) / 1000; }

  Router& router_;
  CallScope& scope_;
  const GenerateInput& input_;
  DeltaSink& sink_;
  const int64_t start_nanos_;

  GenerateRequest request_;  // as nodes get it
  PlacementDemand demand_;
  std::optional<OutputText> text_;
  GenerateOutcome outcome_;

  bool attempt_failed_ = false;  // a node was gone or full in this attempt
  std::vector<int> failed_;      // nodes that were, in this request
  // Nodes of transfers that failed in this request.
  std::vector<int> suspect_prefills_;
  std::vector<int> suspect_decodes_;
  int lost_reservations_ = 0;
  absl::Status last_failure_;
};

Router::Router(Membership& nodes, const PromptEncoder& encoder, const RouterOptions& options,
               const Clock& clock)
    : nodes_(nodes),
      encoder_(encoder),
      options_([&] {
        RouterOptions resolved = options;
        if (!resolved.new_seed) resolved.new_seed = RandomSeed;
        return resolved;
      }()),
      clock_(clock) {}

absl::StatusOr<GenerateOutcome> Router::Generate(CallScope& scope, const GenerateInput& input,
                                                 DeltaSink& sink) {
  Generation generation(*this, scope, input, sink);
  absl::StatusOr<GenerateOutcome> outcome = generation.Run();
  if (IsFault(outcome.status())) {
    LogError(absl::StrCat("request ", generation.request_id(), ": ", outcome.status().ToString()));
  }
  return outcome;
}

absl::StatusOr<ScoreOutcome> Router::Score(CallScope& scope, const ScoreInput& input) {
  ScoreRequest request = input.request;
  if (request.id.empty()) request.id = RandomRequestId();
  HEADWAY_ASSIGN_OR_RETURN(const ModelLimits limits, ClusterView(nodes_.Snapshot()).ScoreLimits());
  HEADWAY_ASSIGN_OR_RETURN(request.tokens, encoder_.Encode(input.prompt, limits.max_positions));
  HEADWAY_RETURN_IF_ERROR(ValidateScore(request, limits));
  const int64_t blocks = BlocksFor(static_cast<int64_t>(request.tokens.size()));
  const v1::ScoreTokensRequest message = ScoreMessage(request, nodes_.numerics_id());
  std::vector<int> failed;
  absl::Status last_failure;
  while (true) {
    const ClusterView view(nodes_.Snapshot(), failed);
    const std::optional<PlacementNode> node =
        ChooseScore(view.nodes(), {.prompt_blocks = blocks, .all_blocks = blocks});
    if (!node) return view.NoNode("score", last_failure);
    nodes_.NoteReserved(node->index, static_cast<int>(blocks));
    absl::StatusOr<v1::ScoreTokensReply> reply =
        nodes_.client(node->index).ScoreTokens(scope, message);
    if (reply.ok()) {
      if (absl::Status status = CheckScores(*reply, request); !status.ok()) {
        return Annotate(status, absl::StrCat("node ", nodes_.client(node->index).address()));
      }
      return ScoreOutcome{.token_ids = std::move(request.tokens), .scores = *std::move(reply)};
    }
    nodes_.ReportFailure(node->index, reply.status());
    if (!MayTryAnother(reply.status())) return reply.status();
    failed.push_back(node->index);
    last_failure = WorthTelling(last_failure, reply.status());
  }
}

absl::StatusOr<std::vector<int32_t>> Router::Tokenize(const Prompt& prompt) const {
  return encoder_.Encode(prompt, std::numeric_limits<int64_t>::max());
}

absl::StatusOr<std::string> Router::Detokenize(const std::vector<int32_t>& ids,
                                               bool include_control_tokens) const {
  if (encoder_.tokenizer() == nullptr) {
    return absl::FailedPreconditionError("detokenize: the checkpoint has no tokenizer");
  }
  return encoder_.tokenizer()->Decode(ids, /*skip_special=*/!include_control_tokens);
}

absl::StatusOr<ServedModel> Router::GetModel() const {
  ServedModel model;
  HEADWAY_RETURN_IF_ERROR(ClusterView(nodes_.Snapshot()).Describe(model));
  model.has_tokenizer = encoder_.tokenizer() != nullptr;
  model.has_chat_template = encoder_.has_chat_template();
  model.end_token_ids = options_.end_token_ids;
  return model;
}

}  // namespace headway
