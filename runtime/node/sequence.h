#ifndef HEADWAY_RUNTIME_NODE_SEQUENCE_H_
#define HEADWAY_RUNTIME_NODE_SEQUENCE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/kv/block_pool.h"
#include "runtime/node/tasks.h"

namespace headway {

// One sequence on its way through a node. Owned by the node loop; touched by its thread only.
//
//   mixed:    kWaiting -> kComputing -> ended
//   prefill:  kWaiting -> kComputing -> kSending (its KV leaves) -> ended
//   decode:   kWaiting -> kReserved -> kArriving (manifest known) -> kComputing -> ended
//   scoring:  as mixed, all logits wanted
struct Sequence {
  enum class Kind { kGenerate, kPrefill, kDecode, kScore };
  enum class State { kWaiting, kReserved, kArriving, kComputing, kSending };

  uint64_t id = 0;
  Kind kind = Kind::kGenerate;
  State state = State::kWaiting;
  std::string request_id;
  std::vector<int32_t> tokens;  // prompt, then output
  int prompt_tokens = 0;
  int computed = 0;  // positions whose KV is in the cache
  SamplingParams sampling;
  bool trace = false;
  BlockSpan blocks;
  int slot = -1;                             // of its block table on the ranks, once it has blocks
  int known_blocks = 0;                      // of `blocks`, those that the ranks know
  std::vector<PositionTrace> pending_trace;  // goes out with the next token

  TokenSink* sink = nullptr;                                           // kGenerate, kDecode
  std::function<void(absl::StatusOr<PrefillResult>)> prefill_done;     // kPrefill
  std::function<void(absl::StatusOr<ScoreResult>)> score_done;         // kScore
  std::function<void(absl::StatusOr<ReservationGrant>)> reserve_done;  // kDecode, while waiting

  // kPrefill: where its KV goes. kDecode: its own reservation.
  ReservationGrant reservation;
  int64_t lease_deadline_nanos = 0;  // of both
  bool transfer_open = false;        // a receive (kDecode) or send (kPrefill) is open on the ranks
  int pushed_blocks = 0;             // kPrefill: blocks that went out
  Manifest manifest;                 // kDecode: what must arrive
  std::vector<int64_t>
      refused;  // kDecode: messages refused by each rank, as far as they are counted
  PrefillResult prefill_result;
  ScoreResult score_result;
  int score_top = 0;

  int64_t enqueued_nanos = 0, started_nanos = 0, computed_nanos = 0;

  bool decoding() const { return computed >= prompt_tokens; }
  int remaining() const { return static_cast<int>(tokens.size()) - computed; }
  bool all_logits() const { return trace || kind == Kind::kScore; }
  int blocks_needed() const {
    return BlocksFor(prompt_tokens +
                     (kind == Kind::kGenerate || kind == Kind::kDecode ? sampling.max_tokens : 0));
  }
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_NODE_SEQUENCE_H_
