#ifndef HEADWAY_RUNTIME_NODE_TASKS_H_
#define HEADWAY_RUNTIME_NODE_TASKS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/cluster/node_role.h"
#include "runtime/request/sampling_params.h"
#include "runtime/request/token_sink.h"
#include "runtime/transfer/manifest.h"

namespace headway {

// How long a step may take before the node counts as stuck, unless configured otherwise. Longer
// than any step takes that is only slow.
inline constexpr int kDefaultStuckSeconds = 120;

// What a node is asked, in its own words (the gRPC service translates). Callbacks are called once,
// on the node's loop thread, and must not block.

// Blocks set aside on a decode node for one sequence, and where its ranks take KV.
struct ReservationGrant {
  uint64_t reservation_id = 0;
  uint64_t epoch = 0;
  int64_t lease_ms = 0;
  int degree = 1;
  std::vector<std::string> rank_addresses;
  int first_block = 0;
};

struct ReserveTask {
  std::string request_id;
  int prompt_tokens = 0;
  int max_tokens = 0;
  int64_t lease_ms = 0;
  uint64_t reservation_id = 0;  // 0: the node chooses
  std::function<void(absl::StatusOr<ReservationGrant>)> done;
};

// Begins the lease of a reservation anew; `done` gets the lease granted, or NotFound.
struct RenewTask {
  uint64_t reservation_id = 0;
  uint64_t epoch = 0;
  int64_t lease_ms = 0;
  std::function<void(absl::StatusOr<int64_t>)> done;
};

struct NodeTimings {
  int64_t queue_us = 0;
  int64_t compute_us = 0;
  int64_t transfer_us = 0;  // from the last layer to the last hand-over
};

struct PrefillResult {
  TokenEvent first;
  Manifest manifest;
  int64_t kv_bytes = 0;
  NodeTimings timings;
};

// Mixed: prompt in, tokens out through the sink (not owned; alive until its OnDone).
struct GenerateTask {
  std::string request_id;
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  bool trace = false;
  TokenSink* sink = nullptr;
};

struct PrefillTask {
  std::string request_id;
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  bool trace = false;
  ReservationGrant target;
  std::function<void(absl::StatusOr<PrefillResult>)> done;
};

// Takes up a reservation: tokens after `first` go to the sink.
struct DecodeTask {
  std::string request_id;
  std::vector<int32_t> prompt;
  int32_t first_token = 0;
  SamplingParams sampling;
  bool trace = false;
  Manifest manifest;
  TokenSink* sink = nullptr;
};

struct ScoreResult {
  std::vector<float> token_logprobs;  // [n - 1]: of token i + 1 after tokens 0..i
  std::vector<std::vector<TokenEvent::Alternative>> top;
  std::vector<PositionTrace> trace;
};

struct ScoreTask {
  std::string request_id;
  std::vector<int32_t> ids;
  int top = 0;
  bool trace = false;
  std::function<void(absl::StatusOr<ScoreResult>)> done;
};

// As headway.v1.NodeLoad.
struct NodeLoad {
  int free_blocks = 0;
  int total_blocks = 0;
  int running = 0;
  int waiting = 0;
  int reservations = 0;
  int64_t kv_bytes_received = 0;
  int64_t kv_bytes_sent = 0;
  int64_t kv_projections = 0;
  int64_t kv_messages_refused = 0;
  int64_t stalled_ms = 0;
  int64_t waiting_blocks = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_NODE_TASKS_H_
