#include "runtime/kv/kv_storage.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/kv/budget.h"
#include "runtime/kv/digest.h"

namespace headway {
namespace {

using testing::HasSubstr;

TEST(KvStorageTest, RunsAreZeroAlignedAndApart) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
    const auto storage = *KvStorage::Create(/*layers=*/3, /*kv_heads=*/2, /*head_dim=*/6, dtype,
                                            /*num_blocks=*/5);
    ASSERT_EQ(storage->layers().size(), 3u);
    EXPECT_EQ(storage->num_blocks(), 5);
    const int64_t run_bytes = 2 * 16 * 6 * BlockBytes(dtype);
    EXPECT_EQ(storage->run_bytes(), run_bytes);
    std::set<std::byte*> starts;
    for (const kernels::KvLayerView& layer : storage->layers()) {
      for (int head = 0; head < 2; ++head) {
        for (int block = 0; block < 5; ++block) starts.insert(layer.Run(head, block));
      }
    }
    ASSERT_EQ(starts.size(), 3u * 2 * 5);
    std::byte* end = nullptr;
    for (std::byte* start : starts) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(start) % 64, 0u);
      EXPECT_TRUE(end == nullptr || start >= end);
      end = start + run_bytes;
      EXPECT_TRUE(std::all_of(start, end, [](std::byte b) { return b == std::byte{0}; }));
    }
  }
}

TEST(KvStorageTest, SixtyFourBytesBehindTheLastRunMayBeRead) {
  // The runs fill 2 MiB, so that without slack the end of the last is the end of a page, small or
  // large.
  const auto storage = *KvStorage::Create(2, 1, 128, DType::kF16, 128);
  ASSERT_EQ(2 * storage->num_blocks() * storage->run_bytes(), 2 << 20);
  const std::byte* end_of_last = storage->layers()[1].Run(0, 127) + storage->run_bytes();
  EXPECT_EQ(end_of_last - storage->layers()[0].base, 2 << 20);
  EXPECT_TRUE(
      std::all_of(end_of_last, end_of_last + 64, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(KvStorageTest, ABlockOfAllLayersAndHeadsIsOneStretch) {
  const auto storage = *KvStorage::Create(3, 2, 8, DType::kF16, 4);
  const int64_t stretch = 3 * 2 * storage->run_bytes();
  for (int block = 0; block < 4; ++block) {
    const std::byte* begin = storage->layers()[0].Run(0, block);
    EXPECT_EQ(begin - storage->layers()[0].Run(0, 0), block * stretch);
    EXPECT_EQ(storage->layers()[2].Run(1, block) + storage->run_bytes() - begin, stretch);
  }
}

TEST(KvStorageTest, RefusesWhatCannotBe) {
  const auto message = [](int layers, int heads, int dim, DType dtype, int blocks) {
    const absl::Status status = KvStorage::Create(layers, heads, dim, dtype, blocks).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message(0, 1, 8, DType::kF16, 1), HasSubstr("layers is 0"));
  EXPECT_THAT(message(1, -2, 8, DType::kF16, 1), HasSubstr("heads is -2"));
  EXPECT_THAT(message(1, 1, 0, DType::kF16, 1), HasSubstr("head dimension is 0"));
  EXPECT_THAT(message(1, 1, 8, DType::kF16, 0), HasSubstr("0 blocks"));
  EXPECT_THAT(message(1, 1, 8, DType::kQ8_0, 1), HasSubstr("q8_0"));
  constexpr int kMost = std::numeric_limits<int>::max();
  EXPECT_THAT(message(kMost, kMost, kMost, DType::kF32, kMost), HasSubstr("2^63"));
}

TEST(KvStorageTest, SaysHowMuchCannotBeHad) {
  const absl::Status status =
      KvStorage::Create(1 << 10, 1 << 10, 1 << 10, DType::kF32, 1 << 10).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1024 blocks"));
}

TEST(KvBytesTest, IsTheFormula) {
  EXPECT_EQ(KvBytes(32, 32, 128, 8192, DType::kF16), int64_t{4} << 30);
  EXPECT_EQ(KvBytes(30, 3, 64, 1, DType::kF32), 2 * 30 * 3 * 64 * 4);
}

TEST(RunDigestTest, SeesEveryByteOfItsRunAndNoOther) {
  const auto storage = *KvStorage::Create(2, 2, 6, DType::kF16, 3);
  const kernels::KvLayerView layer = storage->layers()[1];
  for (int head = 0; head < 2; ++head) {
    for (int block = 0; block < 3; ++block) {
      for (int64_t i = 0; i < layer.RunBytes(); ++i) {
        layer.Run(head, block)[i] = static_cast<std::byte>(i + head * 7 + block * 31);
      }
    }
  }
  const auto digests = [&] {
    std::vector<uint64_t> all;
    for (int head = 0; head < 2; ++head) {
      for (int block = 0; block < 3; ++block) {
        all.push_back(RunDigest({layer.Run(head, block), static_cast<size_t>(layer.RunBytes())}));
      }
    }
    return all;
  };
  const std::vector<uint64_t> before = digests();
  EXPECT_EQ(std::set<uint64_t>(before.begin(), before.end()).size(), 6u);
  for (int64_t i = 0; i < layer.RunBytes(); ++i) {
    layer.Run(1, 1)[i] ^= std::byte{0x10};
    const std::vector<uint64_t> after = digests();
    for (size_t d = 0; d < after.size(); ++d) ASSERT_EQ(after[d] != before[d], d == 4) << i;
    layer.Run(1, 1)[i] ^= std::byte{0x10};
  }
}

}  // namespace
}  // namespace headway
