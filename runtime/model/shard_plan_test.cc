#include "runtime/model/shard_plan.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ModelConfig Config(int query_heads, int kv_heads, int head_dim = 64, int intermediate = 1536,
                   DType dtype = DType::kF32) {
  ModelConfig config;
  config.layers = 3;
  config.hidden = 576;
  config.query_heads = query_heads;
  config.kv_heads = kv_heads;
  config.head_dim = head_dim;
  config.intermediate = intermediate;
  config.vocabulary = 49152;
  config.output_weight = config.down_weight = config.lm_head_weight = dtype;
  return config;
}

ShardPlan Plan(const ModelConfig& config, int degree) {
  absl::StatusOr<ShardPlan> plan = MakeShardPlan(config, degree);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : ShardPlan();
}

// Query heads of each rank, then its KV heads.
std::vector<std::pair<int, std::vector<int>>> Heads(const ShardPlan& plan) {
  std::vector<std::pair<int, std::vector<int>>> heads;
  for (const RankShard& rank : plan.ranks) heads.emplace_back(rank.query_heads(), rank.kv_heads);
  return heads;
}

using V = std::vector<int>;

TEST(ShardPlanTest, NineQueryHeadsOnThreeKvHeads) {
  const ModelConfig config = Config(9, 3);
  EXPECT_EQ(Plan(config, 1).attention_groups(), 9);
  EXPECT_THAT(Heads(Plan(config, 1)), ElementsAre(std::pair(9, V{0, 1, 2})));
  // The boundary cuts through KV head 1: both ranks hold it.
  const ShardPlan two = Plan(config, 2);
  EXPECT_THAT(Heads(two), ElementsAre(std::pair(4, V{0, 1}), std::pair(5, V{1, 2})));
  EXPECT_THAT(two.ranks[0].kv_head_of_query, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(two.ranks[1].kv_head_of_query, ElementsAre(0, 0, 1, 1, 1));
  EXPECT_THAT(Heads(Plan(config, 3)),
              ElementsAre(std::pair(3, V{0}), std::pair(3, V{1}), std::pair(3, V{2})));
  EXPECT_THAT(Heads(Plan(config, 4)), ElementsAre(std::pair(2, V{0}), std::pair(2, V{0, 1}),
                                                  std::pair(2, V{1}), std::pair(3, V{2})));
  const ShardPlan nine = Plan(config, 9);
  for (int r = 0; r < 9; ++r) {
    EXPECT_EQ(nine.ranks[r].query_heads(), 1);
    EXPECT_THAT(nine.ranks[r].kv_heads, ElementsAre(r / 3));
    EXPECT_THAT(nine.ranks[r].kv_head_of_query, ElementsAre(0));
  }
}

TEST(ShardPlanTest, ThirtyTwoQueryHeadsOnEightKvHeads) {
  const ModelConfig config = Config(32, 8, 128, 14336);
  const ShardPlan plan = Plan(config, 16);
  EXPECT_EQ(plan.attention_groups(), 16);
  for (int r = 0; r < 16; ++r) {
    EXPECT_EQ(plan.ranks[r].query_head_begin, 2 * r);
    EXPECT_THAT(plan.ranks[r].kv_heads, ElementsAre(r / 2));
  }
  EXPECT_THAT(
      Heads(Plan(config, 3)),
      ElementsAre(std::pair(10, V{0, 1, 2}), std::pair(10, V{2, 3, 4}), std::pair(12, V{5, 6, 7})));
}

TEST(ShardPlanTest, TwoKvHeadsOnFourRanksAreOnTwoEach) {
  const ShardPlan plan = Plan(Config(16, 2, 128, 11008), 4);
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(plan.ranks[r].query_head_begin, 4 * r);
    EXPECT_EQ(plan.ranks[r].query_head_end, 4 * r + 4);
    EXPECT_THAT(plan.ranks[r].kv_heads, ElementsAre(r / 2));
    EXPECT_THAT(plan.ranks[r].kv_head_of_query, ElementsAre(0, 0, 0, 0));
  }
}

TEST(ShardPlanTest, OneKvHeadIsOnEveryRank) {
  for (const RankShard& rank : Plan(Config(8, 1), 5).ranks) {
    EXPECT_THAT(rank.kv_heads, ElementsAre(0));
  }
}

TEST(ShardPlanTest, AsManyKvHeadsAsQueryHeads) {
  EXPECT_THAT(Heads(Plan(Config(5, 5), 2)),
              ElementsAre(std::pair(2, V{0, 1}), std::pair(3, V{2, 3, 4})));
}

TEST(ShardPlanTest, TwentyHeadsMakeSixteenGroups) {
  const ShardPlan plan = Plan(Config(20, 4), 16);
  EXPECT_THAT(plan.attention_group_heads,
              ElementsAre(0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 20));
}

TEST(ShardPlanTest, QuantisedGroupsAreWholeBlocks) {
  // Heads of 16: two to a block. Heads of 48: a block boundary every second head.
  EXPECT_THAT(Plan(Config(6, 2, 16, 96, DType::kQ4_0), 1).attention_group_heads,
              ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(Plan(Config(4, 2, 48, 96, DType::kQ8_0), 1).attention_group_heads,
              ElementsAre(0, 2, 4));
  EXPECT_THAT(Plan(Config(4, 2, 64, 96, DType::kQ8_0), 1).attention_group_heads,
              ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Plan(Config(4, 2, 64, 96, DType::kQ4_1), 1).mlp_group_columns,
              ElementsAre(0, 32, 64, 96));
  const ModelConfig few_columns = Config(4, 2, 64, 10);
  EXPECT_EQ(Plan(few_columns, 1).mlp_groups(), 10);
  EXPECT_THAT(Plan(Config(4, 2, 64, 1600, DType::kQ4_1), 1).mlp_group_columns,
              ElementsAre(0, 96, 192, 288, 384, 480, 576, 672, 800, 896, 992, 1088, 1184, 1280,
                          1376, 1472, 1600));
}

TEST(ShardPlanTest, RefusesDegreesOutsideTheGroups) {
  for (const int degree : {0, -1, 10, 1 << 30}) {
    const auto plan = MakeShardPlan(Config(9, 3), degree);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr("1 to 9"));
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr(std::to_string(degree)));
  }
}

TEST(ShardPlanTest, RefusesQuantisedWeightsOfHalfABlock) {
  EXPECT_EQ(MakeShardPlan(Config(3, 3, 16, 96, DType::kQ4_0), 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeShardPlan(Config(4, 2, 16, 100, DType::kQ4_0), 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

double RankBytes(const ModelConfig& c, const RankShard& r) {
  const auto bytes = [](DType d, double n) { return n * BlockBytes(d) / BlockElements(d); };
  return c.layers * (bytes(c.output_weight, (2.0 * r.query_heads() + 2.0 * r.kv_heads.size()) *
                                                c.head_dim * c.hidden) +
                     bytes(c.down_weight, 3.0 * (r.mlp_end - r.mlp_begin) * c.hidden)) +
         bytes(c.lm_head_weight, double(r.vocabulary_end - r.vocabulary_begin) * c.hidden);
}

TEST(ShardPlanTest, MlpEvensOutWhatAttentionCannot) {
  // 4 and 5 heads with 2 KV heads each: the second rank gets less of the MLP.
  const ModelConfig config = Config(9, 3, 64, 512);
  const ShardPlan plan = Plan(config, 2);
  EXPECT_GT(plan.ranks[0].mlp_end - plan.ranks[0].mlp_begin,
            plan.ranks[1].mlp_end - plan.ranks[1].mlp_begin);
}

// What must hold of every plan, whatever the model.
void CheckInvariants(const ModelConfig& config, int degree) {
  const ShardPlan plan = Plan(config, degree);
  ASSERT_EQ(plan.degree, degree);
  ASSERT_EQ(plan.ranks.size(), static_cast<size_t>(degree));
  // Groups: the same at every degree, ascending, at most 16, covering everything, balanced.
  EXPECT_EQ(plan.attention_group_heads, Plan(config, 1).attention_group_heads);
  EXPECT_EQ(plan.mlp_group_columns, Plan(config, 1).mlp_group_columns);
  for (const auto& [offsets, end] : {std::pair(plan.attention_group_heads, config.query_heads),
                                     std::pair(plan.mlp_group_columns, config.intermediate)}) {
    EXPECT_EQ(offsets.front(), 0);
    EXPECT_EQ(offsets.back(), end);
    EXPECT_LE(offsets.size(), 17u);
    std::vector<int> sizes(offsets.size());
    std::adjacent_difference(offsets.begin(), offsets.end(), sizes.begin());
    const auto [least, most] = std::minmax_element(sizes.begin() + 1, sizes.end());
    EXPECT_GT(*least, 0);
    const int unit = std::gcd(*least, *most);
    EXPECT_LE(*most - *least, unit);
  }
  // Ranks: neighbouring runs that cover everything once.
  const int per_kv_head = config.query_heads / config.kv_heads;
  std::vector<bool> kv_held(config.kv_heads);
  int group = 0, head = 0, mlp_group = 0, column = 0, row = 0;
  for (const RankShard& rank : plan.ranks) {
    EXPECT_EQ(rank.group_begin, group);
    EXPECT_EQ(rank.query_head_begin, head);
    EXPECT_EQ(rank.mlp_group_begin, mlp_group);
    EXPECT_EQ(rank.mlp_begin, column);
    EXPECT_EQ(rank.vocabulary_begin, row);
    group = rank.group_end;
    head = rank.query_head_end;
    mlp_group = rank.mlp_group_end;
    column = rank.mlp_end;
    row = rank.vocabulary_end;
    EXPECT_GT(rank.query_heads(), 0);
    EXPECT_GE(rank.mlp_group_end, rank.mlp_group_begin);
    EXPECT_EQ(rank.query_head_end, plan.attention_group_heads[rank.group_end]);
    EXPECT_EQ(rank.mlp_end, plan.mlp_group_columns[rank.mlp_group_end]);
    EXPECT_EQ(rank.vocabulary_begin % 32, 0);
    EXPECT_EQ(head * config.head_dim % BlockElements(config.output_weight), 0);
    ASSERT_EQ(rank.kv_head_of_query.size(), static_cast<size_t>(rank.query_heads()));
    EXPECT_TRUE(std::is_sorted(rank.kv_heads.begin(), rank.kv_heads.end()));
    for (int q = 0; q < rank.query_heads(); ++q) {
      const int kv_head = rank.kv_heads[rank.kv_head_of_query[q]];
      EXPECT_EQ(kv_head, (rank.query_head_begin + q) / per_kv_head);
      kv_held[kv_head] = true;
    }
    // No rank holds a KV head that it does not need.
    EXPECT_EQ(rank.kv_head_of_query.front(), 0);
    EXPECT_EQ(rank.kv_head_of_query.back(), static_cast<int>(rank.kv_heads.size()) - 1);
  }
  EXPECT_EQ(group, plan.attention_groups());
  EXPECT_EQ(head, config.query_heads);
  EXPECT_EQ(mlp_group, plan.mlp_groups());
  EXPECT_EQ(column, config.intermediate);
  EXPECT_EQ(row, config.vocabulary);
  EXPECT_TRUE(std::all_of(kv_held.begin(), kv_held.end(), [](bool held) { return held; }));
  EXPECT_EQ(plan.AttentionGroupBounds().back(), plan.attention_groups());
  EXPECT_EQ(plan.MlpGroupBounds().size(), static_cast<size_t>(degree) + 1);

  size_t stored = 0;
  for (const RankShard& rank : plan.ranks) stored += rank.kv_heads.size();
  EXPECT_EQ(plan.stored_kv_heads(), static_cast<int>(stored));

  // Bytes: where every rank has some of the MLP, no boundary could lie a group better.
  double total = 0;
  bool all_have_mlp = true;
  for (const RankShard& rank : plan.ranks) {
    total += RankBytes(config, rank);
    all_have_mlp &= rank.mlp_group_end > rank.mlp_group_begin;
  }
  if (!all_have_mlp) return;
  const int widest = (config.intermediate + plan.mlp_groups() - 1) / plan.mlp_groups() + 32;
  RankShard group_alone;
  group_alone.mlp_end = widest;
  for (const RankShard& rank : plan.ranks) {
    EXPECT_NEAR(RankBytes(config, rank), total / degree, RankBytes(config, group_alone));
  }
}

TEST(ShardPlanTest, InvariantsHoldForRandomModels) {
  std::mt19937 random(1);
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kQ8_0, DType::kQ4_1};
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE(i);
    const int kv_heads = pick(1, 12);
    ModelConfig config = Config(kv_heads * pick(1, 9), kv_heads, 2 * pick(1, 64), pick(1, 5000));
    config.vocabulary = pick(1, 70000);
    config.hidden = 32 * pick(1, 30);
    config.layers = pick(1, 40);
    config.output_weight = kDTypes[pick(0, 3)];
    config.down_weight = kDTypes[pick(0, 3)];
    config.lm_head_weight = kDTypes[pick(0, 3)];
    if (IsQuantised(config.output_weight)) config.head_dim = 16 * pick(1, 8);
    if (config.query_heads * config.head_dim % BlockElements(config.output_weight) != 0) {
      config.output_weight = DType::kF16;
    }
    if (IsQuantised(config.down_weight)) config.intermediate = 32 * pick(1, 300);
    const int groups = Plan(config, 1).attention_groups();
    for (int degree = 1; degree <= groups; ++degree) {
      SCOPED_TRACE(degree);
      CheckInvariants(config, degree);
    }
  }
}

}  // namespace
}  // namespace headway
