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
  std::vector<PlacementNode> nodes;  // index, role, free, total, sequences
  PlacementDemand demand;            // prompt, all
  int decode, prefill, score;        // index of the choice; -1: nothing
};

TEST(PlacementTest, Chooses) {
  const Case kCases[] = {
      {"nobody", {}, {1, 2}, -1, -1, -1},
      {"one mixed node does everything", {{0, M, 9, 10, 3}}, {1, 2}, 0, -1, 0},
      {"a pair", {{0, P, 9, 10, 0}, {1, D, 9, 10, 0}}, {1, 2}, 1, 0, 0},
      {"a decode node alone cannot begin", {{1, D, 9, 10, 0}}, {1, 2}, -1, -1, -1},
      {"a prefill node alone cannot go on, but scores", {{0, P, 9, 10, 0}}, {1, 2}, -1, 0, 0},
      {"most free blocks decode",
       {{0, P, 9, 10, 0}, {1, D, 5, 10, 0}, {2, D, 6, 10, 9}},
       {1, 2},
       2,
       0,
       0},
      {"equal blocks: fewer sequences",
       {{0, P, 9, 10, 0}, {1, D, 5, 10, 2}, {2, D, 5, 10, 1}},
       {1, 2},
       2,
       0,
       0},
      {"all equal: the lower index, whatever the order",
       {{4, D, 5, 10, 1}, {2, D, 5, 10, 1}, {3, P, 9, 10, 0}, {1, P, 9, 10, 0}},
       {1, 2},
       2,
       1,
       1},
      {"least busy prefill",
       {{0, P, 99, 100, 3}, {1, P, 5, 10, 2}, {2, D, 9, 10, 0}},
       {1, 2},
       2,
       1,
       1},
      {"equally busy prefill: more free blocks",
       {{0, P, 5, 10, 2}, {1, P, 6, 10, 2}, {2, D, 9, 10, 0}},
       {1, 2},
       2,
       1,
       1},
      {"a mixed node with more room beats the pair",
       {{0, P, 9, 10, 0}, {1, D, 5, 10, 0}, {2, M, 6, 10, 0}},
       {1, 2},
       2,
       0,
       0},
      {"the pair beats a fuller mixed node",
       {{0, P, 9, 10, 0}, {1, D, 7, 10, 0}, {2, M, 6, 10, 0}},
       {1, 2},
       1,
       0,
       0},
      {"too small a node is passed over, however free",
       {{0, M, 4, 4, 0}, {1, M, 1, 5, 7}},
       {3, 5},
       1,
       -1,
       0},
      {"nobody is large enough", {{0, M, 4, 4, 0}}, {3, 5}, -1, -1, 0},
      {"full for now: it waits there", {{0, M, 0, 5, 7}}, {3, 5}, 0, -1, 0},
      {"promised more than there is", {{0, M, -3, 5, 7}, {1, M, -2, 5, 7}}, {3, 5}, 1, -1, 1},
      {"no prefill node can hold the prompt: the decode node does not count",
       {{0, P, 2, 2, 0}, {1, D, 9, 10, 0}, {2, M, 3, 6, 5}},
       {3, 5},
       2,
       -1,
       2},
      {"a prefill node need not hold the output",
       {{0, P, 3, 3, 0}, {1, D, 9, 10, 0}},
       {3, 5},
       1,
       0,
       0},
      {"scoring prefers the less busy of prefill and mixed",
       {{0, P, 9, 10, 2}, {1, M, 9, 10, 1}},
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
