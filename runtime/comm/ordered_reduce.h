#ifndef HEADWAY_RUNTIME_COMM_ORDERED_REDUCE_H_
#define HEADWAY_RUNTIME_COMM_ORDERED_REDUCE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/comm/communicator.h"
#include "runtime/tensor/reduction_tree.h"

namespace headway {

// Contract rule 3 between ranks: the balanced binary tree over all reduction groups, whoever owns
// them.
//
// Rank r owns groups [bounds[r], bounds[r + 1]) (empty runs allowed) and brings one matrix per
// maximal subtree of its run. Small sums gather all roots and add locally; large ones exchange
// slices (all-to-all), add one slice each, and gather the slices. Same bits either way and for any
// number of ranks.
class OrderedReduce {
 public:
  // `max_elements`: most rows * columns of a call; buffers are taken here, none later.
  static absl::StatusOr<std::unique_ptr<OrderedReduce>> Create(Communicator& comm,
                                                               std::vector<int> bounds, int groups,
                                                               int64_t max_elements);
  virtual ~OrderedReduce() = default;

  // The subtrees that this rank brings, ascending.
  virtual std::span<const TreeNode> local_nodes() const = 0;
  // Where this rank's matrix of subtree i goes: [rows][columns] dense, filled before Reduce.
  virtual float* root_matrix(int i, int rows, int columns) = 0;
  // residual[row][c] += tree sum (+ bias[c], added to the sum first). All ranks end with the same
  // residual.
  virtual absl::Status Reduce(int rows, int columns, const float* bias, float* residual,
                              int residual_stride) = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_COMM_ORDERED_REDUCE_H_
