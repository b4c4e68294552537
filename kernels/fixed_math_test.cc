#include "kernels/fixed_math.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/base/hash.h"

namespace headway::fixed_math {
namespace {

// Against the C library's functions in 80 bits, which are good to about 1e-19.
constexpr double kTolerance = 1e-15;
constexpr int kPoints = 100'000;

double RelativeError(double value, long double right) {
  return right == 0 ? std::abs(value) : static_cast<double>(std::abs((value - right) / right));
}

double Between(double low, double high, int i) { return low + (high - low) * i / kPoints; }

TEST(FixedMathTest, ExpIsAccurate) {
  for (int i = 0; i <= kPoints; ++i) {
    for (double x : {Between(-708, 709, i), Between(-1, 1, i)}) {
      ASSERT_LE(RelativeError(Exp(x), std::exp(static_cast<long double>(x))), kTolerance) << x;
    }
  }
}

TEST(FixedMathTest, ExpAtItsEnds) {
  EXPECT_EQ(Exp(0), 1);
  EXPECT_EQ(Exp(-0.0), 1);
  EXPECT_GT(Exp(kExpLowest), 0);
  EXPECT_EQ(Exp(std::nextafter(kExpLowest, -1000)), 0);
  EXPECT_EQ(Exp(-1e300), 0);
  EXPECT_EQ(Exp(-std::numeric_limits<double>::infinity()), 0);
  EXPECT_EQ(Exp(709.1), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Exp(std::numeric_limits<double>::infinity()), std::numeric_limits<double>::infinity());
}

TEST(FixedMathTest, LogIsAccurate) {
  for (int i = 0; i <= kPoints; ++i) {
    for (double x : {std::exp2(Between(-1074, 1023.9, i)), Between(0.5, 2, i)}) {
      ASSERT_LE(RelativeError(Log(x), std::log(static_cast<long double>(x))), kTolerance) << x;
    }
  }
}

TEST(FixedMathTest, LogAtItsEnds) {
  EXPECT_EQ(Log(1), 0);
  EXPECT_EQ(Log(0), -std::numeric_limits<double>::infinity());
  for (double x :
       {std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::min(),
        std::numeric_limits<double>::max(), std::nextafter(1, 0), std::nextafter(1, 2)}) {
    EXPECT_LE(RelativeError(Log(x), std::log(static_cast<long double>(x))), kTolerance) << x;
  }
}

TEST(FixedMathTest, SinAndCosAreAccurate) {
  for (int i = 0; i <= kPoints; ++i) {
    for (double x : {Between(-1048576, 1048576, i), Between(-7, 7, i)}) {
      double sin, cos;
      SinCos(x, &sin, &cos);
      ASSERT_LE(std::abs(sin - std::sin(static_cast<long double>(x))), kTolerance) << x;
      ASSERT_LE(std::abs(cos - std::cos(static_cast<long double>(x))), kTolerance) << x;
    }
  }
}

// These bits hold on every machine and for every compiler: a change here changes every answer.
TEST(FixedMathTest, BitsAreFixed) {
  std::vector<double> values;
  for (int i = 1; i <= 10'000; ++i) {
    double sin, cos;
    SinCos(i * 0.37, &sin, &cos);
    values.insert(values.end(), {Exp(i * 0.05 - 300), Log(i * 0.11), sin, cos});
  }
  EXPECT_EQ(Hash64(std::as_bytes(std::span<const double>(values))), 7091173256258328841u);
}

}  // namespace
}  // namespace headway::fixed_math
