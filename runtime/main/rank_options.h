#ifndef HEADWAY_RUNTIME_MAIN_RANK_OPTIONS_H_
#define HEADWAY_RUNTIME_MAIN_RANK_OPTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "runtime/main/model_options.h"

namespace headway {

// `headway rank`: a rank above 0 of a node. Its leader starts it; nobody else need.
struct RankMainOptions {
  std::string name = "node/rank";  // in log lines
  int rank = 1;
  int tp = 2;
  ModelOptions model;
  int kv_blocks = 0;               // as the leader has settled on
  int max_positions = 0;           // likewise
  std::string kv_devices = "all";  // likewise
  std::string role = "mixed";
  int comm_fd = -1;    // the shared memory segment of the node's communicator
  int parent_pid = 0;  // the leader; the rank ends when this is no longer its parent
  int ready_fd = -1;   // written to once the weights are loaded; -1: none
};

// Serves its leader until told to end or the leader is gone.
absl::Status RunRank(const RankMainOptions& options);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_RANK_OPTIONS_H_
