#ifndef HEADWAY_RUNTIME_MAIN_NODE_OPTIONS_H_
#define HEADWAY_RUNTIME_MAIN_NODE_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "runtime/cluster/launcher.h"
#include "runtime/main/model_options.h"
#include "runtime/node/tasks.h"

namespace headway {

// Unless told otherwise a node's KV cache takes at most this share of the machine's memory, and no
// more than so many sequences of the longest length can use.
inline constexpr int kMemoryShare = 8;
inline constexpr int kDefaultSequences = 32;

// `headway node`: one tensor-parallel group, this process its leader.
struct NodeMainOptions {
  std::string role = "mixed";  // "prefill", "decode", "mixed"
  std::string name = "node";   // in log lines and in the names of its ranks
  int tp = 1;                  // ranks
  ModelOptions model;
  std::string listen = "127.0.0.1:0";  // port 0: any
  // Network devices of the KV transport, as UCX names them; empty: as `listen` says (KvDevices).
  std::string kv_devices;
  int kv_blocks = 0;      // of 16 tokens; 0: as many as kv_memory holds
  int64_t kv_memory = 0;  // bytes, all ranks together; 0: a share of the machine's
  int max_positions = 0;  // longest sequence in tokens; 0: the checkpoint's limit
  int stuck_seconds = kDefaultStuckSeconds;              // see runtime/node/node_loop.h
  std::string rank_program = LauncherOptions().program;  // what the other ranks execute
  int ready_fd = -1;  // written to once it serves (runtime/cluster/ready_line.h); -1: none
};

// Serves until SIGTERM or SIGINT, then drains. Before it serves such a signal ends the process and
// its ranks. Errors name the flag or the file at fault.
absl::Status RunNode(const NodeMainOptions& options);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_NODE_OPTIONS_H_
