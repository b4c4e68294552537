#include "runtime/kv/block_pool.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(BlockPoolTest, HandsOutEachBlockOnce) {
  BlockPool pool(5);
  BlockSpan a = *pool.TryAllocate(2);
  BlockSpan b = *pool.TryAllocate(3);
  EXPECT_THAT(a.ids(), ElementsAre(0, 1));
  EXPECT_THAT(b.ids(), ElementsAre(2, 3, 4));
  EXPECT_EQ(pool.free(), 0);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
}

TEST(BlockPoolTest, TakesNothingWhenShort) {
  BlockPool pool(5);
  const BlockSpan held = *pool.TryAllocate(3);
  const absl::Status short_of = pool.TryAllocate(3).status();
  EXPECT_EQ(short_of.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(short_of.message(), "cannot take 3 KV blocks: 2 of 5 are free");
  EXPECT_EQ(pool.free(), 2);
  EXPECT_TRUE(pool.TryAllocate(2).ok());
}

TEST(BlockPoolTest, RefusesNegativeCounts) {
  BlockPool pool(5);
  EXPECT_EQ(pool.TryAllocate(-1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pool.TryAllocate(0)->size(), 0);
  EXPECT_EQ(pool.free(), 5);
}

TEST(BlockPoolTest, ASpanReturnsItsBlocksWhenItEnds) {
  BlockPool pool(4);
  {
    const BlockSpan span = *pool.TryAllocate(4);
    EXPECT_EQ(pool.free(), 0);
  }
  EXPECT_EQ(pool.free(), 4);
  EXPECT_THAT(pool.TryAllocate(4)->ids(), ElementsAre(0, 1, 2, 3));
}

TEST(BlockPoolTest, MovingASpanMovesItsBlocks) {
  BlockPool pool(6);
  BlockSpan a = *pool.TryAllocate(2);
  BlockSpan b = std::move(a);
  EXPECT_EQ(pool.free(), 4);
  BlockSpan c = *pool.TryAllocate(3);
  c = std::move(b);  // what c held goes back
  EXPECT_EQ(pool.free(), 4);
  EXPECT_THAT(c.ids(), ElementsAre(0, 1));
  c.Release();
  c.Release();
  EXPECT_EQ(pool.free(), 6);
  EXPECT_THAT(c.ids(), IsEmpty());
  EXPECT_TRUE(pool.CheckIntegrity().ok());
}

TEST(BlockPoolTest, AppendKeepsTheOrderOfPositions) {
  BlockPool pool(6);
  BlockSpan table;
  table.Append(*pool.TryAllocate(2));
  table.Append(*pool.TryAllocate(1));
  table.Append(BlockSpan());
  EXPECT_THAT(table.ids(), ElementsAre(0, 1, 2));
  EXPECT_EQ(pool.free(), 3);
  table.Release();
  EXPECT_EQ(pool.free(), 6);
}

TEST(BlockPoolDeathTest, SpansOfTwoPoolsDoNotMix) {
  BlockPool one(2), other(2);
  BlockSpan span = *one.TryAllocate(1);
  EXPECT_DEATH(span.Append(*other.TryAllocate(1)), "broken invariant");
}

// Sequences come, grow, leave; after each step every block is free or held by one of them.
TEST(BlockPoolTest, KeepsItsBooksUnderRandomChurn) {
  constexpr int kCapacity = 67;
  BlockPool pool(kCapacity);
  std::vector<BlockSpan> sequences;
  std::mt19937 random(3);
  const auto below = [&](size_t n) { return static_cast<int>(random() % n); };
  for (int step = 0; step < 5000; ++step) {
    const int count = below(9);
    const bool room = count <= pool.free();
    switch (below(3)) {
      case 0: {
        absl::StatusOr<BlockSpan> span = pool.TryAllocate(count);
        ASSERT_EQ(span.ok(), room);
        if (span.ok()) sequences.push_back(*std::move(span));
        break;
      }
      case 1: {
        if (sequences.empty()) break;
        absl::StatusOr<BlockSpan> span = pool.TryAllocate(count);
        ASSERT_EQ(span.ok(), room);
        if (span.ok()) sequences[below(sequences.size())].Append(*std::move(span));
        break;
      }
      default:
        if (sequences.empty()) break;
        std::swap(sequences[below(sequences.size())], sequences.back());
        sequences.pop_back();
    }
    ASSERT_TRUE(pool.CheckIntegrity().ok()) << pool.CheckIntegrity();
    std::set<int32_t> held;
    int references = 0;
    for (const BlockSpan& sequence : sequences) {
      held.insert(sequence.ids().begin(), sequence.ids().end());
      references += sequence.size();
    }
    ASSERT_EQ(static_cast<int>(held.size()), references);
    ASSERT_EQ(pool.free() + references, kCapacity);
  }
  sequences.clear();
  EXPECT_EQ(pool.free(), kCapacity);
}

TEST(BlocksForTest, RoundsUp) {
  EXPECT_EQ(BlocksFor(0), 0);
  EXPECT_EQ(BlocksFor(1), 1);
  EXPECT_EQ(BlocksFor(16), 1);
  EXPECT_EQ(BlocksFor(17), 2);
  EXPECT_EQ(BlocksFor(int64_t{1} << 31), 1 << 27);
}

}  // namespace
}  // namespace headway
