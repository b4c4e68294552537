#include "runtime/router/placement.h"

#include <vector>

#include "gtest/gtest.h"

namespace headway {
namespace {

constexpr NodeRole P = NodeRole::kPrefill;
constexpr NodeRole D = NodeRole::kDecode;
constexpr NodeRole M = NodeRole::kMixed;

struct Case {
  const char* situation;
  std::vector<PlacementNode> nodes;  // index, role, blocks free, total, sequences, places, waiting
  PlacementDemand demand;            // prompt, all
  int decode, prefill, score;        // index of the choice; -1: nothing
};

TEST(PlacementTest, Chooses) {
  const Case kCases[] = {
      {"nobody", {}, {1, 2}, -1, -1, -1},
      {"one mixed node does everything", {{0, M, 9, 10, 3, 9}}, {1, 2}, 0, -1, 0},
      {"a pair", {{0, P, 9, 10, 0, 9}, {1, D, 9, 10, 0, 9}}, {1, 2}, 1, 0, 0},
      {"a decode node alone cannot begin", {{1, D, 9, 10, 0, 9}}, {1, 2}, -1, -1, -1},
      {"a prefill node alone cannot go on, but scores", {{0, P, 9, 10, 0, 9}}, {1, 2}, -1, 0, 0},
      {"most free blocks decode",
       {{0, P, 9, 10, 0, 9}, {1, D, 5, 10, 0, 9}, {2, D, 6, 10, 9, 9}},
       {1, 2},
       2,
       0,
       0},
      {"equal blocks: fewer sequences",
       {{0, P, 9, 10, 0, 9}, {1, D, 5, 10, 2, 9}, {2, D, 5, 10, 1, 9}},
       {1, 2},
       2,
       0,
       0},
      {"all equal: the lower index, whatever the order",
       {{4, D, 5, 10, 1, 9}, {2, D, 5, 10, 1, 9}, {3, P, 9, 10, 0, 9}, {1, P, 9, 10, 0, 9}},
       {1, 2},
       2,
       1,
       1},
      {"least busy prefill",
       {{0, P, 99, 100, 3, 9}, {1, P, 5, 10, 2, 9}, {2, D, 9, 10, 0, 9}},
       {1, 2},
       2,
       1,
       1},
      {"equally busy prefill: more free blocks",
       {{0, P, 5, 10, 2, 9}, {1, P, 6, 10, 2, 9}, {2, D, 9, 10, 0, 9}},
       {1, 2},
       2,
       1,
       1},
      {"a mixed node with more room beats the pair",
       {{0, P, 9, 10, 0, 9}, {1, D, 5, 10, 0, 9}, {2, M, 6, 10, 0, 9}},
       {1, 2},
       2,
       0,
       0},
      {"the pair beats a fuller mixed node",
       {{0, P, 9, 10, 0, 9}, {1, D, 7, 10, 0, 9}, {2, M, 6, 10, 0, 9}},
       {1, 2},
       1,
       0,
       0},
      {"too small a node is passed over, however free",
       {{0, M, 4, 4, 0, 9}, {1, M, 1, 5, 7, 9}},
       {3, 5},
       1,
       -1,
       0},
      {"nobody is large enough", {{0, M, 4, 4, 0, 9}}, {3, 5}, -1, -1, 0},
      {"full for now: it waits there", {{0, M, 0, 5, 7, 9}}, {3, 5}, 0, -1, 0},
      {"promised more than there is", {{0, M, -3, 5, 7, 9}, {1, M, -2, 5, 7, 9}}, {3, 5}, 1, -1, 1},
      {"no prefill node can hold the prompt: the decode node does not count",
       {{0, P, 2, 2, 0, 9}, {1, D, 9, 10, 0, 9}, {2, M, 3, 6, 5, 9}},
       {3, 5},
       2,
       -1,
       2},
      {"a prefill node need not hold the output",
       {{0, P, 3, 3, 0, 9}, {1, D, 9, 10, 0, 9}},
       {3, 5},
       1,
       0,
       0},
      {"no place: another, though it has fewer blocks",
       {{0, M, 50, 99, 32, 0, 0}, {1, M, 20, 99, 30, 1, 0}},
       {1, 2},
       1,
       -1,
       1},
      {"no room for all of it: another, though more wait there",
       {{0, P, 9, 10, 0, 9, 0}, {1, D, 4, 10, 1, 9, 0}, {2, D, 5, 10, 7, 2, 3}},
       {1, 5},
       2,
       0,
       0},
      {"it must wait: where fewer wait, however few blocks are free",
       {{0, M, 50, 99, 67, 0, 35}, {1, M, -3, 99, 36, 9, 4}},
       {1, 2},
       1,
       -1,
       1},
      {"as many wait: more free blocks, not fewer sequences",
       {{0, D, -3, 10, 1, 9, 1}, {1, D, 1, 10, 5, 9, 1}, {2, P, 9, 10, 0, 9, 0}},
       {1, 2},
       1,
       2,
       2},
      {"as many wait, as many blocks: the lower index",
       {{3, D, 1, 10, 1, 9, 1}, {1, D, 1, 10, 5, 9, 1}, {2, P, 9, 10, 0, 9, 0}},
       {1, 2},
       1,
       2,
       2},
      {"prompts too begin rather than wait, where fewer are under way",
       {{0, P, 50, 99, 2, 0, 0},
        {1, P, 1, 99, 3, 9, 0},
        {2, P, 0, 99, 1, 9, 0},
        {3, D, 9, 10, 0, 9, 0}},
       {1, 2},
       3,
       1,
       1},
      {"prompts that must wait: the shortest queue",
       {{0, P, 0, 99, 2, 0, 2}, {1, P, -9, 99, 9, 0, 1}, {2, D, 9, 10, 0, 9, 0}},
       {1, 2},
       2,
       1,
       1},
      {"scoring prefers the less busy of prefill and mixed",
       {{0, P, 9, 10, 2, 9}, {1, M, 9, 10, 1, 9}},
       {1, 2},
       1,
       0,
       1},
  };
  for (const Case& c : kCases) {
    const auto index = [](const std::optional<PlacementNode>& node) {
      return node ? node->index : -1;
    };
    EXPECT_EQ(index(ChooseDecode(c.nodes, c.demand)), c.decode) << c.situation;
    EXPECT_EQ(index(ChoosePrefill(c.nodes, c.demand)), c.prefill) << c.situation;
    EXPECT_EQ(index(ChooseScore(c.nodes, c.demand)), c.score) << c.situation;
  }
}

}  // namespace
}  // namespace headway
