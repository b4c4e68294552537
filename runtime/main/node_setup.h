#ifndef HEADWAY_RUNTIME_MAIN_NODE_SETUP_H_
#define HEADWAY_RUNTIME_MAIN_NODE_SETUP_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/engine/rank_engine.h"
#include "runtime/main/model_options.h"
#include "runtime/node/tasks.h"
#include "runtime/transfer/transport.h"

namespace headway {

// How large a node's KV cache may be. Of the two the first that is not 0 counts.
struct KvSize {
  int blocks = 0;
  int64_t memory_bytes = 0;  // all ranks together
  int max_positions = 0;     // 0: the checkpoint's limit
};

// What flags mean for one checkpoint, settled once by whoever starts the ranks, so that all have
// the same.
struct NodeSetup {
  NumericsOptions numerics;
  const kernels::Ops* ops = nullptr;  // null: the fastest
  int threads = 1;                    // of each rank
  int kv_blocks = 0;
  int max_positions = 0;

  EngineOptions Engine() const;
};

// InvalidArgument naming flag, value and limit: a degree that the model cannot have, q8 activations
// without quantised weights, no room for a single block, more than the machine's memory.
absl::StatusOr<NodeSetup> SettleNode(const Checkpoint& checkpoint, const ModelOptions& options,
                                     int degree, const KvSize& size);

absl::StatusOr<NodeRole> ParseNodeRole(const std::string& name);

// The network devices of a node's KV transport where nobody names any: those of the address that it
// listens on, as far as that can be told. "lo" for a loopback address, so that a cluster of one
// host is not open to others; "all" for every other. HOST:PORT.
std::string KvDevices(const std::string& listen);

// The KV transport of a rank in `role`, on `devices`; null for a mixed node, which moves nothing.
absl::StatusOr<std::unique_ptr<Transport>> NewKvTransport(NodeRole role,
                                                          const std::string& devices);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_NODE_SETUP_H_
