#include "runtime/base/bytes.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway {
namespace {

TEST(ParseBytesTest, ReadsUnits) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_EQ(*ParseBytes("80GiB"), 80 * kGiB);
  EXPECT_EQ(*ParseBytes("512MiB"), kGiB / 2);
  EXPECT_EQ(*ParseBytes("1000000"), 1000000);
  EXPECT_EQ(*ParseBytes("0"), 0);
  EXPECT_EQ(*ParseBytes("7B"), 7);
  EXPECT_EQ(*ParseBytes("3 kib"), 3072);
  EXPECT_EQ(*ParseBytes("24GB"), 24'000'000'000);
  EXPECT_EQ(*ParseBytes("2TB"), 2'000'000'000'000);
  EXPECT_EQ(*ParseBytes("1.5TiB"), 3 * kGiB * 512);
  EXPECT_EQ(*ParseBytes("0.1KB"), 100);
  EXPECT_EQ(*ParseBytes("0.0005KB"), 0);
  EXPECT_EQ(*ParseBytes("00000000000000000000000000017"), 17);
  EXPECT_EQ(*ParseBytes("8388607TiB"), int64_t{8388607} << 40);
}

TEST(ParseBytesTest, RefusesEverythingElse) {
  for (const char* text : {"", "GiB", "-1", "+1", "1G", "1Gi", "80 Gib x", "1e9", "0x10", ".5GiB",
                           "1.GiB", "1.2.3", "1,5GiB", " 1", "1\n", "1.0000000001GiB", "nan"}) {
    const absl::Status status = ParseBytes(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("not an amount of memory"));
  }
}

TEST(ParseBytesTest, RefusesMoreThan63Bits) {
  for (const char* text :
       {"8388608TiB", "9223372036854775808", "99999999999999999999999", "99999999TB"}) {
    EXPECT_THAT(std::string(ParseBytes(text).status().message()),
                testing::HasSubstr("more than 2^63 - 1 bytes"))
        << text;
  }
  EXPECT_EQ(*ParseBytes("9223372036854775807"), std::numeric_limits<int64_t>::max());
}

TEST(FormatBytesTest, TakesTheLargestUnit) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(int64_t{80} << 30), "80 GiB");
  EXPECT_EQ(FormatBytes(98362432), "93.81 MiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<int64_t>::max()), "8 EiB");
}

}  // namespace
}  // namespace headway
