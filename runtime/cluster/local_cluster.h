#ifndef HEADWAY_RUNTIME_CLUSTER_LOCAL_CLUSTER_H_
#define HEADWAY_RUNTIME_CLUSTER_LOCAL_CLUSTER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/cluster/launcher.h"
#include "runtime/cluster/topology.h"

namespace headway {

struct LocalClusterOptions {
  Topology topology;
  std::string model;  // a path
  // Flags of every node beside those that its place in the topology decides, e.g.
  // {"--kv-dtype", "f32"}.
  std::vector<std::string> node_flags;
  std::string listen = "127.0.0.1:0";               // of the router
  absl::Duration start_timeout = absl::Minutes(5);  // for everything to be loaded
  LauncherOptions launcher;
};

// A router and its nodes on this machine, each a process of this same binary. Thread-compatible.
class LocalCluster {
 public:
  struct Node {
    std::string name;  // "prefill-0"
    NodeRole role = NodeRole::kMixed;
    int degree = 1;
    std::string address;  // HOST:PORT
  };

  // Starts the nodes, all at once, then the router, and returns when it listens. Errors name the
  // process and what it said last; everything is stopped then. So it is, and Cancelled, where
  // launcher.stop_fd becomes readable first.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(const LocalClusterOptions& options);
  ~LocalCluster();  // as Stop

  const std::string& router_address() const { return router_address_; }
  const std::vector<Node>& nodes() const { return nodes_; }

  // As Launcher's.
  int failure_fd() const { return launcher_->failure_fd(); }
  absl::Status failure() const { return launcher_->failure(); }

  // Ends the router, so that nothing new comes in and running requests end, then the nodes. May be
  // called again.
  void Stop();

 private:
  LocalCluster() = default;

  std::unique_ptr<Launcher> launcher_;
  std::vector<Node> nodes_;
  int router_ = -1;  // its index with the launcher
  std::string router_address_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_LOCAL_CLUSTER_H_
