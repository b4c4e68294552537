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
  // How often a process may be started again within `restart_window` before Mend gives up.
  int max_restarts = 5;
  absl::Duration restart_window = absl::Minutes(1);
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

  // Starts what has ended by itself again, each process at the address that it had, says so in a
  // log line, and returns when all serve again. An error when a process ends too often, or cannot
  // be started: then nothing is mended any more. Cancelled where launcher.stop_fd says so.
  absl::Status Mend();

  // Of a node's leader, for tests.
  pid_t node_pid(int node) const { return launcher_->pid(parts_.at(node).child); }

  // Ends the router, so that nothing new comes in and running requests end, then the nodes. May be
  // called again.
  void Stop();

 private:
  LocalCluster() = default;

  // A process of the cluster: the nodes in their order, then the router.
  struct Part {
    std::string name;
    std::vector<std::string> arguments;  // but for where it listens
    std::string listen;
    int child = -1;                  // its index with the launcher
    std::vector<absl::Time> starts;  // again, of late
  };
  absl::Status StartPart(Part& part);
  absl::StatusOr<std::string> WaitPart(const Part& part, absl::Time deadline);
  absl::Status Restart(Part& part, const absl::Status& why);

  LocalClusterOptions options_;
  std::unique_ptr<Launcher> launcher_;
  std::vector<Node> nodes_;
  std::vector<Part> parts_;
  std::string router_address_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_LOCAL_CLUSTER_H_
