#include "runtime/main/stream_stats.h"

#include "gtest/gtest.h"

namespace headway {
namespace {

TEST(StreamStatsTest, CountsFromTheRequestAndBetweenTokens) {
  StreamStats stats(/*start_nanos=*/1000);
  stats.Add(1500, 1);
  for (int i = 1; i <= 100; ++i) stats.Add(1500 + i * (i + 1) / 2, 1);  // gaps 1, 2, ..., 100
  EXPECT_EQ(stats.ttft_nanos(), 500);
  EXPECT_EQ(stats.ItlNanos(0.5), 50);
  EXPECT_EQ(stats.ItlNanos(0.99), 99);
  EXPECT_EQ(stats.ItlNanos(1), 100);
  EXPECT_EQ(stats.ItlNanos(0), 1);
  EXPECT_DOUBLE_EQ(stats.TokensPerSecond(), 100 / 5050e-9);
}

TEST(StreamStatsTest, TokensOfOneMessageAreTogether) {
  StreamStats stats(0);
  stats.Add(10, 2);
  stats.Add(30, 2);
  EXPECT_EQ(stats.ItlNanos(0.5), 0);
  EXPECT_EQ(stats.ItlNanos(0.99), 20);
}

TEST(StreamStatsTest, HasNoFiguresForTooFewTokens) {
  StreamStats stats(5);
  EXPECT_EQ(stats.ttft_nanos(), 0);
  stats.Add(10, 1);
  EXPECT_EQ(stats.ttft_nanos(), 5);
  EXPECT_EQ(stats.ItlNanos(0.5), 0);
  EXPECT_EQ(stats.TokensPerSecond(), 0);
  stats.Add(10, 1);
  EXPECT_EQ(stats.TokensPerSecond(), 0) << "no time has passed";
}

}  // namespace
}  // namespace headway
