#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"

namespace headway {
namespace {

TEST(HashTest, IsXxh3) {
  // Published test value: XXH3_64bits of the empty input with seed 0.
  EXPECT_EQ(Hash64({}), 0x2D06800538D394C2u);
}

TEST(HashTest, CombineDependsOnOrder) {
  EXPECT_NE(HashCombine(HashCombine(0, 1), 2), HashCombine(HashCombine(0, 2), 1));
}

absl::StatusOr<int> Half(int n) {
  if (n % 2 != 0) return absl::InvalidArgumentError("odd");
  return n / 2;
}

absl::StatusOr<int> Quarter(int n) {
  HEADWAY_ASSIGN_OR_RETURN(int half, Half(n));
  HEADWAY_ASSIGN_OR_RETURN(int quarter, Half(half));
  return quarter;
}

TEST(StatusTest, MacrosReturnTheFirstError) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
  EXPECT_EQ(Annotate(Quarter(6).status(), "quarter of 6").message(), "quarter of 6: odd");
  EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok());
}

TEST(StringsTest, CrossTheBorderUnchanged) {
  std::string s("a\0b", 3);
  EXPECT_EQ(ToStd(ToAbsl(s)), s);
}

TEST(ClockTest, FakeMovesOnlyByHand) {
  FakeClock clock;
  const int64_t start = clock.NowNanos();
  EXPECT_EQ(clock.NowNanos(), start);
  clock.AdvanceSeconds(1.5);
  EXPECT_EQ(clock.NowNanos() - start, 1'500'000'000);
  const int64_t earlier = Clock::Real().NowNanos();
  EXPECT_LE(earlier, Clock::Real().NowNanos());
}

}  // namespace
}  // namespace headway
