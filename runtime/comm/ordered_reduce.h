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
  // Matrices of up to this many elements (rows * columns) are gathered. Slices make the ranks meet
  // twice instead of once, but copy and add less. Where meeting is dear (more ranks than cores) the
  // two break even between 2,000 and 9,000 elements; where it is cheap they differ by microseconds
  // (tests/bench/comm_bench).
  static constexpr int64_t kGatherElements = 4096;

  // `max_elements`: most rows * columns of a call; buffers are taken here, none later. `comm` must
  // outlive the result; other collectives may run on it between two calls of Reduce. The same
  // arguments on every rank. InvalidArgument naming what does not fit, ResourceExhausted naming the
  // bytes when there is no memory.
  static absl::StatusOr<std::unique_ptr<OrderedReduce>> Create(
      Communicator& comm, std::vector<int> bounds, int groups, int64_t max_elements,
      int64_t gather_elements = kGatherElements);
  virtual ~OrderedReduce() = default;

  // The subtrees that this rank brings, ascending.
  virtual std::span<const TreeNode> local_nodes() const = 0;
  // Where this rank's matrix of subtree i goes: [rows][columns] dense, subtree after subtree
  // without a gap. Filled before a Reduce of the same rows and columns, which overwrites it.
  virtual float* root_matrix(int i, int rows, int columns) = 0;
  // residual[row][c] += tree sum (+ bias[c], added to the sum first). All ranks end with the same
  // residual. `bias` may be null. InvalidArgument when rows * columns exceed max_elements, else the
  // communicator's errors; after an error residual is unchanged.
  virtual absl::Status Reduce(int rows, int columns, const float* bias, float* residual,
                              int residual_stride) = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_COMM_ORDERED_REDUCE_H_
