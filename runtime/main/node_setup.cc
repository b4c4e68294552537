#include "runtime/main/node_setup.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "kernels/ops.h"
#include "runtime/base/host_port.h"
#include "runtime/base/status.h"
#include "runtime/kv/block_pool.h"
#include "runtime/kv/kv_storage.h"
#include "runtime/main/node_options.h"
#include "runtime/transfer/ucx_transport.h"

namespace headway {
namespace {

// Rows of one step that may want logits: decoding sequences, and positions of a text that is
// scored. Each row takes the vocabulary in floats (200 KB at 50,000 entries).
constexpr int kLogitRows = 64;

int64_t MachineMemoryBytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
}

// How many blocks of `block_bytes` the KV cache has on a machine of `machine_bytes`.
absl::StatusOr<int> KvBlocks(const KvSize& size, int max_positions, int64_t block_bytes,
                             int64_t machine_bytes) {
  // Memory is taken as it is used, so what can never be had would be found out late, by a process
  // that is killed.
  if (size.blocks > machine_bytes / block_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--kv-blocks ", size.blocks, ": at ", block_bytes,
        " bytes a block that is more than this machine's memory of ", machine_bytes, " bytes"));
  }
  if (size.blocks > 0) return size.blocks;
  if (size.memory_bytes > machine_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("--kv-memory ", size.memory_bytes,
                                                   " bytes is more than this machine's memory of ",
                                                   machine_bytes, " bytes"));
  }
  int64_t bytes = size.memory_bytes;
  if (bytes == 0) {
    const int64_t usable = int64_t{kDefaultSequences} * BlocksFor(max_positions) * block_bytes;
    bytes = std::min(usable, machine_bytes / kMemoryShare);
  }
  if (bytes < block_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the KV cache may take ", bytes, " bytes; one block of 16 tokens takes ", block_bytes));
  }
  return static_cast<int>(std::min<int64_t>(bytes / block_bytes, INT32_MAX));
}

}  // namespace

EngineOptions NodeSetup::Engine() const {
  EngineOptions options;
  options.threads = threads;
  options.numerics = numerics;
  options.ops = ops;
  options.kv_blocks = kv_blocks;
  options.limits.max_positions = max_positions;
  options.limits.max_logit_rows = kLogitRows;
  return options;
}

absl::StatusOr<NodeRole> ParseNodeRole(const std::string& name) {
  for (NodeRole role : {NodeRole::kPrefill, NodeRole::kDecode, NodeRole::kMixed}) {
    if (name == NodeRoleName(role)) return role;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--role is \"", name, "\"; it is one of prefill, decode, mixed"));
}

absl::StatusOr<NodeSetup> SettleNode(const Checkpoint& checkpoint, const ModelOptions& options,
                                     int degree, const KvSize& size) {
  HEADWAY_ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(checkpoint));
  HEADWAY_ASSIGN_OR_RETURN(ShardPlan plan, MakeShardPlan(config, degree));
  NodeSetup setup;
  setup.numerics.kv_dtype = options.kv_dtype;
  const kernels::ActivationFormat usual = DefaultActivations(checkpoint, config);
  setup.numerics.activations = options.activations.value_or(usual);
  if (setup.numerics.activations == kernels::ActivationFormat::kQ8 &&
      usual != kernels::ActivationFormat::kQ8) {
    return absl::InvalidArgumentError(
        "--activations q8 needs a checkpoint with quantised weights; this one has none: use f32");
  }
  if (!options.kernels.empty()) {
    HEADWAY_ASSIGN_OR_RETURN(setup.ops, kernels::FindOps(options.kernels));
  }
  const int cores = std::max(1u, std::thread::hardware_concurrency());
  setup.threads = options.threads > 0 ? options.threads : std::max(1, cores / degree);
  if (size.max_positions < 0 || size.max_positions > config.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat("--max-positions is ", size.max_positions,
                                                   "; the checkpoint has ", config.max_positions));
  }
  setup.max_positions = size.max_positions > 0 ? size.max_positions : config.max_positions;

  const int64_t block_bytes = KvBytes(config.layers, plan.stored_kv_heads(), config.head_dim,
                                      kernels::kKvBlockTokens, options.kv_dtype);
  HEADWAY_ASSIGN_OR_RETURN(setup.kv_blocks,
                           KvBlocks(size, setup.max_positions, block_bytes, MachineMemoryBytes()));
  return setup;
}

std::string KvDevices(const std::string& listen) {
  const absl::StatusOr<HostPort> place = ParseHostPort(listen);
  const bool loopback = place.ok() && (place->host == "localhost" || place->host == "[::1]" ||
                                       place->host.starts_with("127."));
  return loopback ? "lo" : "all";
}

absl::StatusOr<std::unique_ptr<Transport>> NewKvTransport(NodeRole role,
                                                          const std::string& devices) {
  if (role == NodeRole::kMixed) return nullptr;
  return UcxTransport::Create({.net_devices = devices});
}

}  // namespace headway
