#include "runtime/transfer/plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "gtest/gtest.h"

namespace headway {
namespace {

ModelConfig Config(int query_heads, int kv_heads) {
  ModelConfig config;
  config.layers = 2;
  config.hidden = query_heads * 16;
  config.query_heads = query_heads;
  config.kv_heads = kv_heads;
  config.head_dim = 16;
  config.intermediate = 512;
  config.vocabulary = 320;
  return config;
}

int Groups(const ModelConfig& config) { return MakeShardPlan(config, 1)->attention_groups(); }

// Whether every (decode rank, head) can be served with at most `limit` routes a prefill rank: an
// augmenting-path matching, written apart from the planner.
struct Matching {
  std::vector<std::vector<int>> sources;  // per demand
  std::vector<std::vector<int>> served;   // per prefill rank
  int limit;

  bool Place(int demand, std::set<int>& tried) {
    for (int rank : sources[demand]) {
      if (!tried.insert(rank).second) continue;
      if (static_cast<int>(served[rank].size()) < limit) {
        served[rank].push_back(demand);
        return true;
      }
      for (int& other : served[rank]) {
        if (Place(other, tried)) {
          other = demand;
          return true;
        }
      }
    }
    return false;
  }
};

int LowestPossibleLoad(const ShardPlan& prefill, const ShardPlan& decode) {
  Matching matching;
  for (const RankShard& target : decode.ranks) {
    for (int head : target.kv_heads) {
      matching.sources.emplace_back();
      for (int rank = 0; rank < prefill.degree; ++rank) {
        const std::vector<int>& held = prefill.ranks[rank].kv_heads;
        if (std::count(held.begin(), held.end(), head) > 0) matching.sources.back().push_back(rank);
      }
    }
  }
  for (matching.limit = 1;; ++matching.limit) {
    matching.served.assign(prefill.degree, {});
    bool all = true;
    for (int demand = 0; all && demand < static_cast<int>(matching.sources.size()); ++demand) {
      std::set<int> tried;
      all = matching.Place(demand, tried);
    }
    if (all) return matching.limit;
  }
}

using Heads = std::pair<int, int>;  // query heads, KV heads

class PlanTest : public testing::TestWithParam<Heads> {};

TEST_P(PlanTest, EveryPairOfDegreesIsCompleteAndEven) {
  const ModelConfig config = Config(GetParam().first, GetParam().second);
  const int most = Groups(config);
  for (int p = 1; p <= most; ++p) {
    for (int d = 1; d <= most; ++d) {
      SCOPED_TRACE(testing::Message() << "degrees " << p << " to " << d);
      const ShardPlan prefill = *MakeShardPlan(config, p);
      const ShardPlan decode = *MakeShardPlan(config, d);
      const std::vector<HeadRoute> routes = PlanTransfer(prefill, decode);

      std::map<std::pair<int, int>, int> seen;  // (target rank, head)
      std::vector<int> load(p, 0);
      for (const HeadRoute& route : routes) {
        ++seen[{route.target_rank, route.kv_head}];
        ASSERT_EQ(prefill.ranks.at(route.source_rank).kv_heads.at(route.source_head),
                  route.kv_head);
        ASSERT_EQ(decode.ranks.at(route.target_rank).kv_heads.at(route.target_head), route.kv_head);
        ++load[route.source_rank];
      }
      std::map<std::pair<int, int>, int> wanted;
      for (int rank = 0; rank < d; ++rank) {
        for (int head : decode.ranks[rank].kv_heads) wanted[{rank, head}] = 1;
      }
      EXPECT_EQ(seen, wanted);
      EXPECT_EQ(*std::max_element(load.begin(), load.end()), LowestPossibleLoad(prefill, decode));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PlanTest,
                         testing::Values(Heads{9, 3}, Heads{8, 8}, Heads{16, 2}, Heads{4, 1},
                                         Heads{15, 5}, Heads{14, 2}, Heads{32, 8}, Heads{40, 10},
                                         Heads{7, 7}, Heads{1, 1}));

TEST(PlanOfKnownModelTest, ThreeKvHeadsOnTwoRanksCutTheMiddleOne) {
  const ModelConfig config = Config(9, 3);
  const ShardPlan one = *MakeShardPlan(config, 1);
  const ShardPlan two = *MakeShardPlan(config, 2);
  ASSERT_EQ(two.ranks[0].kv_heads, (std::vector<int>{0, 1}));
  ASSERT_EQ(two.ranks[1].kv_heads, (std::vector<int>{1, 2}));
  EXPECT_EQ(PlanTransfer(one, two),
            (std::vector<HeadRoute>{
                {.kv_head = 0, .source_head = 0, .target_rank = 0, .target_head = 0},
                {.kv_head = 1, .source_head = 1, .target_rank = 0, .target_head = 1},
                {.kv_head = 1, .source_head = 1, .target_rank = 1, .target_head = 0},
                {.kv_head = 2, .source_head = 2, .target_rank = 1, .target_head = 1}}));
  EXPECT_EQ(PlanTransfer(two, one),
            (std::vector<HeadRoute>{
                {.kv_head = 0, .source_rank = 0, .source_head = 0, .target_head = 0},
                {.kv_head = 1, .source_rank = 1, .source_head = 0, .target_head = 1},
                {.kv_head = 2, .source_rank = 1, .source_head = 1, .target_head = 2}}));
}

// The holder of the only copies must not also be asked for what others hold.
TEST(PlanByHandTest, LoadMovesAlongAChain) {
  ShardPlan prefill;
  prefill.degree = 3;
  prefill.ranks.resize(3);
  prefill.ranks[0].kv_heads = {0, 1, 2, 3};
  prefill.ranks[1].kv_heads = {0, 1, 4};
  prefill.ranks[2].kv_heads = {4};
  ShardPlan decode;
  decode.degree = 1;
  decode.ranks.resize(1);
  decode.ranks[0].kv_heads = {0, 1, 2, 3, 4};
  std::vector<int> load(3, 0);
  for (const HeadRoute& route : PlanTransfer(prefill, decode)) ++load[route.source_rank];
  EXPECT_EQ(load, (std::vector<int>{2, 2, 1}));
}

TEST(PlanByHandTest, SameInputsSameRoutes) {
  const ModelConfig config = Config(32, 8);
  const ShardPlan prefill = *MakeShardPlan(config, 5);
  const ShardPlan decode = *MakeShardPlan(config, 3);
  EXPECT_EQ(PlanTransfer(prefill, decode), PlanTransfer(prefill, decode));
}

}  // namespace
}  // namespace headway
