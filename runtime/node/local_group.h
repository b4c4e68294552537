#ifndef HEADWAY_RUNTIME_NODE_LOCAL_GROUP_H_
#define HEADWAY_RUNTIME_NODE_LOCAL_GROUP_H_

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/node/node_loop.h"
#include "runtime/node/rank_host.h"

namespace headway {

struct LocalGroupOptions {
  NodeOptions node;
  int degree = 1;
  EngineOptions engine;
  // Makes rank r's KV transport; empty: none (a mixed node).
  std::function<std::unique_ptr<Transport>(int rank)> new_transport;
  // Puts something of the caller's around rank r's communicator; empty: nothing. What `headway
  // verify` plants its faults with.
  std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)> wrap_communicator;
};

// A whole node inside this process: ranks are threads, the loop has its own. For `headway verify`,
// `headway bench` and tests; a deployment runs one process a rank.
class LocalGroup {
 public:
  // Loads all ranks and starts the loop. `checkpoint` and `clock` outlive the group.
  static absl::StatusOr<std::unique_ptr<LocalGroup>> Create(const Checkpoint& checkpoint,
                                                            const LocalGroupOptions& options,
                                                            const Clock& clock);
  // Stops the loop and the ranks.
  ~LocalGroup();

  NodeLoop& loop() { return *loop_; }
  RankEngine& leader_engine() { return hosts_[0]->engine(); }
  // Of all ranks.
  int open_transfers() const;

 private:
  LocalGroup() = default;
  std::vector<std::unique_ptr<Communicator>> comms_;
  std::vector<std::unique_ptr<RankHost>> hosts_;
  std::vector<std::thread> followers_;
  std::unique_ptr<NodeLoop> loop_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_NODE_LOCAL_GROUP_H_
