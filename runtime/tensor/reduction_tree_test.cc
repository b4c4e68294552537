#include "runtime/tensor/reduction_tree.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The definition, taken literally.
float TreeValue(const std::vector<float>& leaves, int level, int index) {
  if (level == 0) return leaves[index];
  const float left = TreeValue(leaves, level - 1, 2 * index);
  const int first_of_right = (2 * index + 1) << (level - 1);
  if (first_of_right >= static_cast<int>(leaves.size())) return left;
  return left + TreeValue(leaves, level - 1, 2 * index + 1);
}

int RootLevelOf(int groups) { return static_cast<int>(std::ceil(std::log2(groups))); }

// Values of very different size, so that another order of additions gives other bits.
std::vector<float> RandomLeaves(int groups, std::mt19937& random) {
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-6, 6);
  std::vector<float> leaves(groups);
  for (float& leaf : leaves) leaf = std::ldexp(mantissa(random), exponent(random));
  return leaves;
}

// Reduces `leaves` as ranks do that own the runs between neighbouring `bounds`.
float ReduceByRuns(const std::vector<float>& leaves, const std::vector<int>& bounds) {
  const int groups = static_cast<int>(leaves.size());
  std::vector<TreeNode> nodes;
  for (size_t r = 0; r + 1 < bounds.size(); ++r) {
    for (const TreeNode node : MaximalSubtrees(bounds[r], bounds[r + 1], groups)) {
      nodes.push_back(node);
    }
  }
  std::vector<float> roots;
  for (const TreeNode node : nodes) roots.push_back(TreeValue(leaves, node.level, node.index));
  std::vector<float*> values;
  for (float& root : roots) values.push_back(&root);
  float sum = 0;
  CombineSubtrees(nodes, values, groups, 1, &sum);
  return sum;
}

TEST(ReductionTreeTest, EveryCutIntoRunsGivesTheBitsOfTheWholeTree) {
  std::mt19937 random(7);
  for (int groups = 1; groups <= kMaxReductionGroups; ++groups) {
    const std::vector<float> leaves = RandomLeaves(groups, random);
    const uint32_t want = std::bit_cast<uint32_t>(TreeValue(leaves, RootLevelOf(groups), 0));
    for (uint32_t cuts = 0; cuts < 1u << (groups - 1); ++cuts) {
      std::vector<int> bounds = {0};
      for (int i = 1; i < groups; ++i) {
        if (cuts >> (i - 1) & 1) bounds.push_back(i);
      }
      bounds.push_back(groups);
      ASSERT_EQ(std::bit_cast<uint32_t>(ReduceByRuns(leaves, bounds)), want)
          << groups << " groups, cuts " << cuts;
    }
  }
}

TEST(ReductionTreeTest, EmptyRunsChangeNothing) {
  std::mt19937 random(8);
  const std::vector<float> leaves = RandomLeaves(9, random);
  EXPECT_EQ(ReduceByRuns(leaves, {0, 0, 4, 4, 9, 9}), TreeValue(leaves, 4, 0));
}

TEST(ReductionTreeTest, TheOrderIsTheTreesAndNotAChain) {
  // (1 + 2^-24) rounds to 1, twice; 2^-24 + 2^-24 first gives another value.
  const std::vector<float> leaves = {1, 0, 0x1p-24f, 0x1p-24f};
  EXPECT_EQ(ReduceByRuns(leaves, {0, 4}), 1 + 0x1p-23f);
  EXPECT_EQ(ReduceByRuns(leaves, {0, 1, 2, 3, 4}), 1 + 0x1p-23f);
}

TEST(ReductionTreeTest, AnAbsentSubtreeIsSkippedAndNotAddedAsZero) {
  // -0 + 0 is +0, so one addition too many shows in the sign.
  for (int groups = 1; groups <= kMaxReductionGroups; ++groups) {
    const std::vector<float> leaves(groups, -0.0f);
    std::vector<int> bounds;
    for (int i = 0; i <= groups; ++i) bounds.push_back(i);
    EXPECT_TRUE(std::signbit(ReduceByRuns(leaves, bounds))) << groups;
  }
}

TEST(ReductionTreeTest, MaximalSubtreesCoverTheRunAndHaveNoCoveredParent) {
  for (int groups = 1; groups <= kMaxReductionGroups; ++groups) {
    const int root_level = RootLevelOf(groups);
    for (int begin = 0; begin <= groups; ++begin) {
      for (int end = begin; end <= groups; ++end) {
        int next = begin;
        for (const TreeNode node : MaximalSubtrees(begin, end, groups)) {
          EXPECT_EQ(FirstGroup(node), next);
          next = EndGroup(node, groups);
          const TreeNode parent{node.level + 1, node.index / 2};
          EXPECT_TRUE(node.level == root_level || FirstGroup(parent) < begin ||
                      EndGroup(parent, groups) > end)
              << groups << " groups, run " << begin << ".." << end;
        }
        EXPECT_EQ(next, end);
      }
    }
  }
}

TEST(ReductionTreeTest, MaximalSubtreesOfKnownRuns) {
  EXPECT_THAT(MaximalSubtrees(3, 3, 9), IsEmpty());
  EXPECT_THAT(MaximalSubtrees(0, 16, 16), ElementsAre(TreeNode{4, 0}));
  EXPECT_THAT(MaximalSubtrees(0, 5, 9), ElementsAre(TreeNode{2, 0}, TreeNode{0, 4}));
  // Group 8 of 9 is alone in the right half of the tree: its subtree reaches up to the root.
  EXPECT_THAT(MaximalSubtrees(5, 9, 9),
              ElementsAre(TreeNode{0, 5}, TreeNode{1, 3}, TreeNode{3, 1}));
}

TEST(ReductionTreeTest, CombinesManyElementsInPlaceOrElsewhere) {
  constexpr int kGroups = 7;
  constexpr int kCount = 1337;  // more than one stretch, and no multiple of one
  std::mt19937 random(9);
  std::vector<std::vector<float>> columns;
  for (int i = 0; i < kCount; ++i) columns.push_back(RandomLeaves(kGroups, random));
  for (const bool in_place : {false, true}) {
    std::vector<std::vector<float>> matrices(kGroups, std::vector<float>(kCount));
    std::vector<TreeNode> nodes;
    std::vector<float*> values;
    for (int g = 0; g < kGroups; ++g) {
      for (int i = 0; i < kCount; ++i) matrices[g][i] = columns[i][g];
      nodes.push_back({0, g});
      values.push_back(matrices[g].data());
    }
    std::vector<float> elsewhere(kCount);
    float* out = in_place ? values[0] : elsewhere.data();
    CombineSubtrees(nodes, values, kGroups, kCount, out);
    for (int i = 0; i < kCount; ++i) ASSERT_EQ(out[i], TreeValue(columns[i], 3, 0)) << i;
  }
}

TEST(ReductionTreeTest, OneRootIsCopied) {
  float value[2] = {3, 4};
  float out[2] = {};
  float* values[] = {value};
  const TreeNode nodes[] = {{3, 0}};
  CombineSubtrees(nodes, values, 5, 2, out);
  EXPECT_THAT(out, ElementsAre(3, 4));
}

TEST(ReductionTreeDeathTest, NodesThatDoNotCoverTheGroupsAreABrokenInvariant) {
  float value[2] = {3, 4};
  float* values[] = {&value[0], &value[1]};
  const TreeNode gap[] = {{0, 0}, {0, 2}};
  EXPECT_DEATH(CombineSubtrees(gap, values, 3, 1, value), "broken invariant");
}

}  // namespace
}  // namespace headway
