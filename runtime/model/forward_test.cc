#include "runtime/model/forward.h"

#include <numeric>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/hash.h"
#include "runtime/model/rank_group.h"
#include "tests/allocation_counter.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

using testing::HasSubstr;
using Logits = BatchSpan::Logits;

std::unique_ptr<Checkpoint> Golden(const std::string& relative) {
  auto checkpoint = Checkpoint::Open(GoldenPath(relative));
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  return *std::move(checkpoint);
}

class ForwardTest : public testing::Test {
 protected:
  std::unique_ptr<RankGroup> New(const RankGroup::Options& options) {
    auto group = RankGroup::Create(*checkpoint_, options);
    EXPECT_TRUE(group.ok()) << group.status();
    return *std::move(group);
  }

  std::unique_ptr<Checkpoint> checkpoint_ = Golden("models/llama_gqa_9_3");  // vocabulary 163
  std::vector<int32_t> tokens_ = {3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26};
  std::vector<int32_t> blocks_ = {0, 1, 2, 3};
};

TEST_F(ForwardTest, LeavesTheWantedRowsInOrder) {
  const auto group = New({});
  const LogitRows all = TestSequence(*group, 1).Feed(tokens_, 12);
  TestSequence a(*group, 1, 0), b(*group, 1, 1), c(*group, 1, 2);
  const std::span<const int32_t> tokens = tokens_;
  const BatchSpan batch[] = {a.Next(tokens.first(5), Logits::kLast),
                             b.Next(tokens.first(7), Logits::kNone),
                             c.Next(tokens.first(3), Logits::kAll)};
  ASSERT_TRUE(group->Run(batch).ok());
  EXPECT_TRUE(SameBits(CopyLogits(*group), {all[4], all[0], all[1], all[2]}));
}

TEST_F(ForwardTest, GathersManyLogitRows) {
  // More rows than cross between ranks at a time.
  std::vector<int32_t> tokens(150);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7 % 163);
  const LogitRows one = TestSequence(*New({}), 10).Feed(tokens, 150);
  // At degree 9 some ranks have no row of the vocabulary.
  for (const int degree : {2, 9}) {
    EXPECT_TRUE(SameBits(TestSequence(*New({.degree = degree}), 10).Feed(tokens, 150), one));
  }
}

TEST_F(ForwardTest, CountsProjectionsAndKeys) {
  const auto group = New({.degree = 2});
  TestSequence sequence(*group, 1);
  sequence.Feed(std::span(tokens_).first(5), 5);
  EXPECT_EQ(group->forward(0).kv_projections(), 5);
  EXPECT_EQ(group->forward(0).attended_keys(), 15);
  sequence.Feed(std::span(tokens_).subspan(5, 1), 1);
  EXPECT_EQ(group->forward(1).kv_projections(), 6);
  EXPECT_EQ(group->forward(1).attended_keys(), 21);
}

struct BadBatch {
  std::string name;
  std::vector<BatchSpan> spans;
  std::vector<std::string> named;
};

TEST_F(ForwardTest, RefusesABadBatchBeforeItWrites) {
  const auto group =
      New({.limits = {.max_rows = 8, .max_logit_rows = 4, .max_positions = 40}, .num_blocks = 4});
  const std::span<const int32_t> tokens = tokens_;
  const std::vector<int32_t> above = {1, 163}, below = {1, -1};
  const std::vector<int32_t> bad_block = {0, 4}, negative_block = {-1};
  const std::vector<BadBatch> cases = {
      {"empty batch", {}, {"empty"}},
      {"empty span", {{.tokens = {}, .block_table = blocks_}}, {"no tokens"}},
      {"too many rows", {{.tokens = tokens.first(9), .block_table = blocks_}}, {"9", "8"}},
      {"too many rows in all",
       {{.tokens = tokens.first(5), .block_table = blocks_},
        {.tokens = tokens.first(4), .block_table = blocks_}},
       {"9", "8", "span 1 of 2"}},
      {"too many logits",
       {{.tokens = tokens.first(5), .block_table = blocks_, .logits = Logits::kAll}},
       {"5", "4"}},
      {"token above", {{.tokens = above, .block_table = blocks_}}, {"163", "position 1"}},
      {"token below", {{.tokens = below, .block_table = blocks_}}, {"-1"}},
      {"position beyond",
       {{.tokens = tokens.first(3), .first_position = 38, .block_table = blocks_}},
       {"38 to 40", "39"}},
      {"position far beyond",
       {{.tokens = tokens.first(3), .first_position = 2147483647, .block_table = blocks_}},
       {"2147483649"}},
      {"position below",
       {{.tokens = tokens.first(3), .first_position = -1, .block_table = blocks_}},
       {"-1"}},
      {"no block table", {{.tokens = tokens.first(3)}}, {"table has 0 blocks", "need 1"}},
      {"a short block table",
       {{.tokens = tokens.first(2),
         .first_position = 15,
         .block_table = std::span(blocks_).first(1)}},
       {"table has 1 blocks", "positions up to 16 need 2"}},
      {"block beyond",
       {{.tokens = tokens.first(1), .first_position = 16, .block_table = bad_block}},
       {"block 4", "3"}},
      {"block below", {{.tokens = tokens.first(1), .block_table = negative_block}}, {"-1"}},
  };
  const kernels::KvLayerView& kv = group->kv(0).layers[0];
  const auto digest = [&] {
    return Hash64({kv.base, static_cast<size_t>(kv.RunBytes() * kv.kv_heads * kv.num_blocks)});
  };
  const LogitRows before = TestSequence(*group, 1).Feed(tokens.first(2), 2);
  const uint64_t kv_before = digest();
  for (const BadBatch& bad : cases) {
    SCOPED_TRACE(bad.name);
    const absl::Status status = group->Run(bad.spans);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    for (const std::string& part : bad.named) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
    EXPECT_EQ(digest(), kv_before);
    EXPECT_TRUE(SameBits(CopyLogits(*group), before));
    EXPECT_EQ(group->forward(0).kv_projections(), 2);
  }
  // The limits themselves are fine.
  const BatchSpan last = {.tokens = tokens.first(8), .first_position = 32, .block_table = blocks_};
  EXPECT_TRUE(group->Run({&last, 1}).ok());
}

TEST_F(ForwardTest, RefusesACacheOfAnotherShape) {
  const auto group = New({});
  const BatchSpan span = {.tokens = tokens_, .block_table = blocks_};
  std::vector<kernels::KvLayerView> layers(group->kv(0).layers.begin(), group->kv(0).layers.end());
  const auto run = [&] { return group->forward(0).Run({&span, 1}, {.layers = layers}, nullptr); };
  EXPECT_TRUE(run().ok());
  layers.back().dtype = DType::kF16;
  EXPECT_THAT(std::string(run().message()), HasSubstr("f16"));
  layers.pop_back();
  EXPECT_EQ(run().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ForwardTest, RefusesLimitsAndChoicesThatCannotBe) {
  const auto error = [&](const RankGroup::Options& options) {
    return std::string(RankGroup::Create(*checkpoint_, options).status().message());
  };
  EXPECT_THAT(error({.limits = {.max_rows = 0}}), HasSubstr("max_rows is 0"));
  EXPECT_THAT(error({.limits = {.max_rows = 1 << 30}}), HasSubstr("max_rows is 1073741824"));
  EXPECT_THAT(error({.limits = {.max_logit_rows = -1}}), HasSubstr("max_logit_rows is -1"));
  EXPECT_THAT(error({.limits = {.max_positions = 513}}), HasSubstr("limit is 512"));
  EXPECT_THAT(error({.numerics = {.kv_dtype = DType::kQ8_0}}), HasSubstr("q8_0"));
}

TEST_F(ForwardTest, ResolvesLimits) {
  const auto group = New({.limits = {.max_rows = 8}});
  EXPECT_EQ(group->forward(0).limits().max_positions, 512);
  EXPECT_EQ(group->forward(0).limits().max_logit_rows, 8);
}

absl::Status FailingGateUp(const kernels::GateUpParams&, kernels::Stream&) {
  return absl::InternalError("gate_up: planted");
}

TEST_F(ForwardTest, OneFailingRankReleasesTheOthers) {
  const kernels::Ops& good = kernels::BestCpuOps();
  kernels::Ops failing = good;
  failing.GateUp = FailingGateUp;
  const auto group = New({.degree = 3, .ops_of_rank = {&good, &good, &failing}});
  const BatchSpan span = {.tokens = tokens_, .block_table = blocks_};
  EXPECT_THAT(std::string(group->Run({&span, 1}).message()), HasSubstr("planted"));
  // The communicator is dead, and says so at once.
  EXPECT_THAT(std::string(group->Run({&span, 1}).message()), HasSubstr("planted"));
}

TEST_F(ForwardTest, RunAllocatesNothing) {
  for (const kernels::Ops* ops : kernels::SupportedCpuOps()) {
    const auto group = New({.threads = 2, .ops = ops});
    TestSequence sequence(*group, 3);
    const std::span<const int32_t> tokens = tokens_;
    const BatchSpan batch[] = {sequence.Next(tokens.first(9), Logits::kAll),
                               {.tokens = tokens.first(1),
                                .block_table = std::span(blocks_).subspan(3),
                                .logits = Logits::kLast}};
    const int64_t before = Allocations();
    // The first pass too: nothing is taken late.
    const absl::Status status = group->forward(0).Run(batch, group->kv(0), nullptr);
    const int64_t after = Allocations();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(after - before, 0) << ops->name;
  }
}

TEST_F(ForwardTest, RunAllocatesNothingBesideOtherRanks) {
  const auto group = New({.degree = 3});
  const BatchSpan span = {.tokens = tokens_, .block_table = blocks_, .logits = Logits::kAll};
  std::vector<int64_t> counts(3, -1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const PagedKvView kv = group->kv(rank);
      const int64_t before = AllocationsOfThread();
      const absl::Status status = group->forward(rank).Run({&span, 1}, kv, nullptr);
      const int64_t after = AllocationsOfThread();
      if (status.ok()) counts[rank] = after - before;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(counts, testing::ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace headway
