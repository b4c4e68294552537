#include "runtime/device/thread_team.h"

#include <xmmintrin.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway {
namespace {

TEST(ThreadTeamTest, RunCallsEveryThreadOnce) {
  for (int size : {1, 2, 3, 8}) {
    ThreadTeam team(size);
    EXPECT_EQ(team.size(), size);
    std::vector<int> calls(size);
    for (int i = 0; i < 100; ++i) team.Run([&](int thread) { ++calls[thread]; });
    EXPECT_THAT(calls, testing::Each(100));
  }
}

TEST(ThreadTeamTest, TheCallerIsThreadZero) {
  ThreadTeam team(3);
  std::vector<std::thread::id> ids(3);
  team.Run([&](int thread) { ids[thread] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_EQ(std::set<std::thread::id>(ids.begin(), ids.end()).size(), 3u);
}

TEST(ThreadTeamTest, EachUnitRunsOnceWhateverTheirNumber) {
  for (int size : {1, 2, 3, 5}) {
    ThreadTeam team(size);
    for (int units : {0, 1, 2, 3, 7, 1000}) {
      std::vector<int> parallel(units), ordered(units), serial(units);
      team.ParallelFor(units, [&](int u, int thread) {
        ASSERT_LT(thread, size);
        ++parallel[u];
      });
      team.OrderedFor(units, [&](int u, int) { ++ordered[u]; });
      team.SerialFor(units, [&](int u, int thread) {
        ASSERT_EQ(thread, 0);
        ++serial[u];
      });
      EXPECT_THAT(parallel, testing::Each(1));
      EXPECT_THAT(ordered, testing::Each(1));
      EXPECT_THAT(serial, testing::Each(1));
    }
  }
}

// Each job reads what the one before wrote on other threads; a lost order shows under TSan and
// here.
TEST(ThreadTeamTest, AJobSeesWhatTheJobBeforeWrote) {
  ThreadTeam team(3);
  std::vector<int> values(64), next(64);
  for (int i = 0; i < 64; ++i) values[i] = i;
  for (int round = 0; round < 300; ++round) {
    team.ParallelFor(64, [&](int u, int) { next[u] = values[(u + 1) % 64]; });
    std::swap(values, next);
  }
  for (int i = 0; i < 64; ++i) EXPECT_EQ(values[i], (i + 300) % 64);
}

// Threads that went to sleep are woken: the gaps are longer than spinning and yielding last.
TEST(ThreadTeamTest, WorksAfterItsThreadsFellAsleep) {
  ThreadTeam team(2);
  std::vector<int> calls(2);
  for (int i = 0; i < 5; ++i) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(3);
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    team.Run([&](int thread) { ++calls[thread]; });
  }
  EXPECT_THAT(calls, testing::ElementsAre(5, 5));
}

// The caller waits for a slow thread long enough to sleep itself.
TEST(ThreadTeamTest, TheCallerWaitsForTheSlowest) {
  ThreadTeam team(2);
  bool finished = false;
  team.Run([&](int thread) {
    if (thread == 0) return;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    finished = true;
  });
  EXPECT_TRUE(finished);
}

// A thread that sleeps through whole jobs enters a later one, once, and never a job that is over:
// its results would be torn, or its callable gone.
TEST(ThreadTeamTest, LateThreadsEnterNoFinishedJob) {
  ThreadTeam team(4);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> units(1 + round % 9, 0);
    auto count = std::make_unique<std::atomic<int>>(0);
    team.ParallelFor(static_cast<int>(units.size()), [&](int u, int) {
      ++units[u];
      count->fetch_add(1, std::memory_order_relaxed);
    });
    ASSERT_EQ(count->load(), static_cast<int>(units.size()));
    ASSERT_THAT(units, testing::Each(1));
    if (round % 50 == 0) {
      std::vector<int> calls(4);
      team.Run([&](int thread) { ++calls[thread]; });
      ASSERT_THAT(calls, testing::Each(1));
    }
  }
}

TEST(ThreadTeamTest, MoreThreadsThanCoresMakeProgress) {
  ThreadTeam team(16);
  std::vector<int> counts(16);
  for (int i = 0; i < 50; ++i) team.Run([&](int thread) { ++counts[thread]; });
  EXPECT_THAT(counts, testing::Each(50));
}

TEST(ThreadTeamTest, JobsHaveTheDefaultFloatEnvironmentAndTheCallersReturns) {
  const unsigned before = _mm_getcsr();
  const unsigned flushing =
      0x1f80 | 0x8040 | 0x6000;  // flush to zero, subnormals are zero, truncate
  _mm_setcsr(flushing);
  std::vector<unsigned> seen(2), serial(1);
  {
    ThreadTeam team(2);
    team.Run([&](int thread) { seen[thread] = _mm_getcsr() & ~0x3fu; });
    team.SerialFor(1, [&](int, int) { serial[0] = _mm_getcsr() & ~0x3fu; });
  }
  const unsigned after = _mm_getcsr() & ~0x3fu;
  _mm_setcsr(before);
  EXPECT_THAT(seen, testing::Each(0x1f80u));
  EXPECT_EQ(serial[0], 0x1f80u);
  EXPECT_EQ(after, flushing);
}

}  // namespace
}  // namespace headway
