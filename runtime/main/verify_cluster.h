#ifndef HEADWAY_RUNTIME_MAIN_VERIFY_CLUSTER_H_
#define HEADWAY_RUNTIME_MAIN_VERIFY_CLUSTER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/cluster/launcher.h"
#include "runtime/cluster/node_role.h"
#include "runtime/experiment/verify/row.h"

namespace headway {

struct VerifyClusterOptions {
  std::string model;
  std::vector<std::string> node_flags;  // numerics and threads, for every node
  int max_degree = 3;
  int max_positions = 0;  // of the case
};

// Real processes for `headway verify`: a prefill, a decode and a mixed node of every degree,
// started once; each row puts a router before the one or two nodes that it is about and sends the
// case through the public interface.
class VerifyCluster {
 public:
  static absl::StatusOr<std::unique_ptr<VerifyCluster>> Start(const VerifyClusterOptions& options);

  // One row a mixed node, then one for each (prefill degree, decode degree). They use this object.
  std::vector<std::unique_ptr<VerifyRow>> Rows();

 private:
  friend class ClusterRow;
  VerifyCluster() = default;
  // Starts a router before these nodes (flags such as {"--prefill", ADDRESS}), runs the case, stops
  // the router.
  absl::StatusOr<RowResult> RunThroughRouter(const std::vector<std::string>& node_flags,
                                             const VerifyCase& request);

  VerifyClusterOptions options_;
  std::unique_ptr<Launcher> launcher_;
  std::map<std::pair<NodeRole, int>, std::string> addresses_;  // by role and degree
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_VERIFY_CLUSTER_H_
