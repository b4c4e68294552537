#include "runtime/transfer/manifest.h"

#include <set>

#include "gtest/gtest.h"

namespace headway {
namespace {

TEST(ManifestTest, OrderOfArrivalDoesNotMatter) {
  RankManifest forward, backward;
  for (int i = 0; i < 100; ++i) forward.Add(i % 5, i % 3, i, 1000 + i);
  for (int i = 99; i >= 0; --i) backward.Add(i % 5, i % 3, i, 1000 + i);
  EXPECT_EQ(forward.runs, 100);
  EXPECT_EQ(forward, backward);
}

TEST(ManifestTest, PartsAddUp) {
  RankManifest whole, first, second;
  for (int block = 0; block < 40; ++block) {
    whole.Add(3, 1, block, block * 7);
    (block % 4 == 0 ? first : second).Add(3, 1, block, block * 7);
  }
  first.Add(second);
  EXPECT_EQ(first, whole);
}

TEST(ManifestTest, EachPartOfThePlaceAndTheDigestCount) {
  std::set<uint64_t> digests;
  auto digest = [&](int layer, int head, int block, uint64_t run) {
    RankManifest manifest;
    manifest.Add(layer, head, block, run);
    digests.insert(manifest.digest);
  };
  digest(0, 0, 0, 0);
  digest(1, 0, 0, 0);
  digest(0, 1, 0, 0);
  digest(0, 0, 1, 0);
  digest(0, 0, 0, 1);
  digest(0, 0, 1 << 30, 0);
  EXPECT_EQ(digests.size(), 6u);
}

TEST(ManifestTest, SwappedHeadsDiffer) {
  RankManifest right, swapped;
  right.Add(2, 0, 5, 111), right.Add(2, 1, 5, 222);
  swapped.Add(2, 1, 5, 111), swapped.Add(2, 0, 5, 222);
  EXPECT_EQ(right.runs, swapped.runs);
  EXPECT_NE(right, swapped);
}

}  // namespace
}  // namespace headway
