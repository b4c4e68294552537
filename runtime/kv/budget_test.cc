#include "runtime/kv/budget.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kGiB = int64_t{1} << 30;

KvBudgetRequest Request(int64_t kv_heads, int64_t positions) {
  KvBudgetRequest request;
  request.layers = 32;
  request.query_heads = 32;
  request.kv_heads = kv_heads;
  request.head_dim = 128;
  request.positions = positions;
  request.dtype = DType::kF16;
  return request;
}

TEST(KvBudgetTest, KnownSizes) {
  EXPECT_EQ(ComputeKvBudget(Request(32, 8192))->kv_bytes, 4 * kGiB);
  EXPECT_EQ(ComputeKvBudget(Request(8, 8192))->kv_bytes, kGiB);
  EXPECT_EQ(ComputeKvBudget(Request(32, 8192))->sequences, std::nullopt);
}

TEST(KvBudgetTest, KnownSequences) {
  for (const auto& [kv_heads, sequences] : {std::pair(32, 5), std::pair(8, 20)}) {
    KvBudgetRequest request = Request(kv_heads, 32768);
    request.memory_bytes = 80 * kGiB;
    EXPECT_EQ(ComputeKvBudget(request)->sequences, sequences);
    *request.memory_bytes -= 1;
    EXPECT_EQ(ComputeKvBudget(request)->sequences, sequences - 1);
  }
}

TEST(KvBudgetTest, DTypeScalesTheBytes) {
  KvBudgetRequest request = Request(8, 8192);
  request.dtype = DType::kBF16;
  EXPECT_EQ(ComputeKvBudget(request)->kv_bytes, kGiB);
  request.dtype = DType::kF32;
  EXPECT_EQ(ComputeKvBudget(request)->kv_bytes, 2 * kGiB);
}

TEST(KvBudgetTest, UnevenRanksAndCopiedHeads) {
  // 9 query and 3 KV heads on two ranks: heads 0..4 and 5..8, so KV head 1 is on both.
  KvBudgetRequest request;
  request.layers = 30;
  request.query_heads = 9;
  request.kv_heads = 3;
  request.head_dim = 64;
  request.positions = 100;
  request.kv_heads_per_rank = {2, 2};
  const int64_t head_bytes = 2 * 30 * 64 * 100 * 2;
  KvBudget budget = *ComputeKvBudget(request);
  EXPECT_EQ(budget.kv_bytes, 3 * head_bytes);
  EXPECT_THAT(budget.kv_bytes_per_rank, ElementsAre(2 * head_bytes, 2 * head_bytes));

  request.kv_heads_per_rank = {2, 1};
  EXPECT_THAT(ComputeKvBudget(request)->kv_bytes_per_rank, ElementsAre(2 * head_bytes, head_bytes));
}

TEST(KvBudgetTest, TheFullestRankDecidesAndTheLastBlockCountsWhole) {
  KvBudgetRequest request;
  request.layers = 1;
  request.query_heads = 3;
  request.kv_heads = 3;
  request.head_dim = 8;
  request.positions = 17;  // two blocks
  request.kv_heads_per_rank = {1, 2};
  const int64_t block_bytes = 2 * 2 * 8 * 16 * 2;  // K and V of two heads
  request.memory_bytes = 4 * block_bytes;
  EXPECT_EQ(ComputeKvBudget(request)->sequences, 2);
  request.memory_bytes = 4 * block_bytes - 1;
  EXPECT_EQ(ComputeKvBudget(request)->sequences, 1);
  request.memory_bytes = 1;
  EXPECT_EQ(ComputeKvBudget(request)->sequences, 0);
}

struct Refusal {
  const char* name;
  void (*change)(KvBudgetRequest&);
  const char* message;
};

class KvBudgetRefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(KvBudgetRefusalTest, NamesNumberAndLimit) {
  KvBudgetRequest request = Request(8, 8192);
  request.memory_bytes = kGiB;
  ASSERT_TRUE(ComputeKvBudget(request).ok());
  GetParam().change(request);
  const absl::Status status = ComputeKvBudget(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

INSTANTIATE_TEST_SUITE_P(
    Cases, KvBudgetRefusalTest,
    testing::Values(
        Refusal{"Layers", [](KvBudgetRequest& r) { r.layers = 0; }, "layers is 0"},
        Refusal{"Heads", [](KvBudgetRequest& r) { r.query_heads = -4; }, "heads is -4"},
        Refusal{"KvHeads", [](KvBudgetRequest& r) { r.kv_heads = 0; }, "KV heads is 0"},
        Refusal{"HeadDim", [](KvBudgetRequest& r) { r.head_dim = -1; }, "head dimension is -1"},
        Refusal{"Positions", [](KvBudgetRequest& r) { r.positions = 0; }, "positions is 0"},
        Refusal{"Memory", [](KvBudgetRequest& r) { r.memory_bytes = -1; }, "memory in bytes is -1"},
        Refusal{"Ratio", [](KvBudgetRequest& r) { r.kv_heads = 5; }, "32 heads are not a multiple"},
        Refusal{"Type", [](KvBudgetRequest& r) { r.dtype = DType::kQ4_1; }, "q4_1"},
        Refusal{"EmptyRank",
                [](KvBudgetRequest& r) {
                  r.kv_heads_per_rank = {8, 0};
                },
                "a rank with 0 of 8"},
        Refusal{"FullRank", [](KvBudgetRequest& r) { r.kv_heads_per_rank = {9}; },
                "a rank with 9 of 8"},
        Refusal{"Uncovered",
                [](KvBudgetRequest& r) {
                  r.kv_heads_per_rank = {3, 4};
                },
                "1 of 8 are on none"},
        Refusal{"Overflow", [](KvBudgetRequest& r) { r.positions = kMost; }, "2^63"},
        Refusal{"OverflowOfLayers", [](KvBudgetRequest& r) { r.layers = kMost / 2; }, "2^63"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(KvBudgetTest, ManyRanksDoNotOverflow) {
  KvBudgetRequest request = Request(1, 1);
  request.layers = request.head_dim = 1;
  request.kv_heads = request.query_heads = kMost / 4;
  request.kv_heads_per_rank.assign(64, kMost / 4);
  EXPECT_EQ(ComputeKvBudget(request)->kv_bytes, kMost / 4 * 4);
}

}  // namespace
}  // namespace headway
