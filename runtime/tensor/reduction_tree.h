#ifndef HEADWAY_RUNTIME_TENSOR_REDUCTION_TREE_H_
#define HEADWAY_RUNTIME_TENSOR_REDUCTION_TREE_H_

#include <span>
#include <vector>

namespace headway {

// The balanced binary tree of contract rule 3 over group indices 0..groups-1, pure arithmetic.
//
// A node at `level` l with index i covers groups [i * 2^l, min((i + 1) * 2^l, groups)). Its value
// is left child + right child; where the right child covers no group, it is the left child's value.
struct TreeNode {
  int level = 0;
  int index = 0;
  bool operator==(const TreeNode&) const = default;
};

inline constexpr int kMaxReductionGroups = 16;

// The largest nodes that cover groups [begin, end) exactly, ascending; what a rank that owns these
// groups reduces alone. A node whose missing half lies past `groups` counts as covered. Empty run:
// none.
std::vector<TreeNode> MaximalSubtrees(int begin, int end, int groups);

// The first and one-past-last group that `node` covers.
int FirstGroup(TreeNode node);
int EndGroup(TreeNode node, int groups);

// Adds `roots` values to one along the tree. nodes[i] belongs to values[i]; together the nodes
// cover 0..groups-1 without overlap, ascending. values[i] points at `count` floats. The result lies
// in `out` (may alias values[0]). Element-wise, so any number of elements at a time gives the same
// bits. `values` is overwritten as scratch.
void CombineSubtrees(std::span<const TreeNode> nodes, std::span<float* const> values, int groups,
                     int count, float* out);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TENSOR_REDUCTION_TREE_H_
