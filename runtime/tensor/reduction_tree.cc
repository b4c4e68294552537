#include "runtime/tensor/reduction_tree.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/check.h"

namespace headway {
namespace {

// Level of the root: the least l with 2^l >= groups.
int RootLevel(int groups) {
  int level = 0;
  while ((1 << level) < groups) ++level;
  return level;
}

// values[left] + values[right]; the sum replaces the left one.
struct Addition {
  int left = 0;
  int right = 0;
};

// The additions that join nodes[i] into the root, children before parents. Index 0 ends as the
// root's value.
int PlanAdditions(std::span<const TreeNode> nodes, int groups,
                  std::array<Addition, kMaxReductionGroups>& additions) {
  struct Item {
    TreeNode node;
    int value = 0;
  };
  std::array<Item, kMaxReductionGroups> items;
  int count = static_cast<int>(nodes.size());
  int covered = 0;
  for (int i = 0; i < count; ++i) {
    HEADWAY_CHECK(FirstGroup(nodes[i]) == covered);
    covered = EndGroup(nodes[i], groups);
    items[i] = {nodes[i], i};
  }
  HEADWAY_CHECK(covered == groups);

  int planned = 0;
  for (int level = 0; level < RootLevel(groups); ++level) {
    int kept = 0;
    for (int i = 0; i < count; ++i) {
      Item item = items[i];
      if (item.node.level == level) {
        // The nodes cover all groups, so a right child always follows its left one, and a left
        // child without a right one has nothing beyond it: its value rises unchanged.
        HEADWAY_CHECK(item.node.index % 2 == 0);
        if (EndGroup(item.node, groups) < groups) {
          HEADWAY_CHECK(i + 1 < count &&
                        items[i + 1].node == (TreeNode{level, item.node.index + 1}));
          additions[planned++] = {item.value, items[i + 1].value};
          ++i;
        }
        item.node = {level + 1, item.node.index / 2};
      }
      items[kept++] = item;
    }
    count = kept;
  }
  HEADWAY_CHECK(count == 1 && items[0].value == 0);
  return planned;
}

}  // namespace

int FirstGroup(TreeNode node) { return node.index << node.level; }

int EndGroup(TreeNode node, int groups) { return std::min((node.index + 1) << node.level, groups); }

std::vector<TreeNode> MaximalSubtrees(int begin, int end, int groups) {
  HEADWAY_CHECK(0 <= begin && begin <= end && end <= groups && groups <= kMaxReductionGroups);
  std::vector<TreeNode> nodes;
  const int root_level = RootLevel(groups);
  for (int first = begin; first < end;) {
    TreeNode node{0, first};
    while (node.level < root_level && node.index % 2 == 0 &&
           EndGroup({node.level + 1, node.index / 2}, groups) <= end) {
      node = {node.level + 1, node.index / 2};
    }
    nodes.push_back(node);
    first = EndGroup(node, groups);
  }
  return nodes;
}

void CombineSubtrees(std::span<const TreeNode> nodes, std::span<float* const> values, int groups,
                     int count, float* out) {
  HEADWAY_CHECK(!nodes.empty() && nodes.size() <= kMaxReductionGroups);
  HEADWAY_CHECK(nodes.size() == values.size());
  std::array<Addition, kMaxReductionGroups> additions;
  const int planned = PlanAdditions(nodes, groups, additions);
  if (planned == 0) {
    if (out != values[0]) std::memcpy(out, values[0], sizeof(float) * static_cast<size_t>(count));
    return;
  }
  // All additions over one stretch before the next, so partial sums stay in the first-level cache.
  constexpr int kStretch = 512;
  for (int begin = 0; begin < count; begin += kStretch) {
    const int end = std::min(begin + kStretch, count);
    for (int a = 0; a < planned; ++a) {
      const float* left = values[additions[a].left];
      const float* right = values[additions[a].right];
      float* sum = a + 1 == planned ? out : values[additions[a].left];
      for (int i = begin; i < end; ++i) sum[i] = left[i] + right[i];
    }
  }
}

}  // namespace headway
