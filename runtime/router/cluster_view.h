#ifndef HEADWAY_RUNTIME_ROUTER_CLUSTER_VIEW_H_
#define HEADWAY_RUNTIME_ROUTER_CLUSTER_VIEW_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/cluster/membership.h"
#include "runtime/request/validate.h"
#include "runtime/router/inference.h"
#include "runtime/router/placement.h"

namespace headway {

// What a request may ask of the nodes together.
struct ClusterLimits {
  ModelLimits model;          // kv_positions: of the largest pool that could hold a whole sequence
  int64_t prompt_blocks = 0;  // of the largest pool that could hold a prompt while it is computed
};

// The nodes at one moment, as the decisions about one request need them. Immutable.
class ClusterView {
 public:
  // Without the nodes (indices) in `excluded`.
  explicit ClusterView(std::vector<MemberSnapshot> members, std::span<const int> excluded = {});

  // The usable nodes.
  std::span<const PlacementNode> nodes() const { return nodes_; }

  // Unavailable when no nodes can take a prompt to its end.
  absl::StatusOr<ClusterLimits> GenerateLimits() const;
  // Unavailable when no node can score.
  absl::StatusOr<ModelLimits> ScoreLimits() const;

  // Why a request could not be placed: the last failure of another node where that is
  // ResourceExhausted, word for word; else Unavailable with the nodes that are left and, unless it
  // is OK, that failure.
  absl::Status NoNode(const std::string& operation, const absl::Status& last_failure = {}) const;

  // Fills in what nodes say of the model. Unavailable when none answers.
  absl::Status Describe(ServedModel& model) const;

 private:
  ModelLimits SharedLimits() const;

  std::vector<MemberSnapshot> members_;  // all of them
  std::vector<PlacementNode> nodes_;     // the usable ones
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_ROUTER_CLUSTER_VIEW_H_
