#ifndef HEADWAY_RUNTIME_CLUSTER_TOPOLOGY_H_
#define HEADWAY_RUNTIME_CLUSTER_TOPOLOGY_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/cluster/node_role.h"

namespace headway {

// `count` nodes of one role and one tensor-parallel degree.
struct NodeGroup {
  NodeRole role = NodeRole::kMixed;
  int count = 1;
  int degree = 1;
  bool operator==(const NodeGroup&) const = default;
};

// The nodes of a cluster, written as one line: groups COUNTxROLE:tpDEGREE with commas between them,
// where ROLE is P (prefill), D (decode) or M (mixed). E.g. "1xP:tp2,1xD:tp1".
struct Topology {
  std::vector<NodeGroup> groups;  // in the order written

  int Nodes(NodeRole role) const;
  int Nodes() const;
  int Ranks() const;  // processes that hold weights
  std::string ToString() const;
  bool operator==(const Topology&) const = default;
};

// InvalidArgument naming the line, the part and what was expected. Refused too: no group, counts
// outside 1..1000, degrees outside 1..1000, and prefill without decode nodes or the reverse.
// Whether a checkpoint can be cut into that many ranks is not known here.
absl::StatusOr<Topology> ParseTopology(std::string_view line);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_TOPOLOGY_H_
