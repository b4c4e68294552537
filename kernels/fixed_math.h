#ifndef HEADWAY_KERNELS_FIXED_MATH_H_
#define HEADWAY_KERNELS_FIXED_MATH_H_

#include <bit>
#include <cstdint>
#include <limits>

// exp, log, sin and cos of float64 from + - * / alone, each operation rounded by itself, so that
// tables and probabilities have the same bits on every machine; libm's differ. Relative error below
// 1e-15 (sin and cos: absolute).
namespace headway::fixed_math {

namespace internal {

// Adding and subtracting it rounds to the nearest integer, which the low bits of the sum hold.
inline constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52

inline constexpr double kLn2High = 6.93147180369123816490e-01;  // 32 bits: n times it is exact
inline constexpr double kLn2Low = 1.90821492927058770002e-10;

}  // namespace internal

// Arguments below this give 0 (results would be subnormal, and slow).
inline constexpr double kExpLowest = -708;

// e^x for kExpLowest <= x <= 709, without a branch.
//
// x = n ln 2 + r with |r| <= ln 2 / 2; e^r is its Taylor polynomial of degree 13, whose remainder
// is below 5e-18.
inline double ExpInRange(double x) {
  const double rounded = x * 1.4426950408889634 + internal::kRound;
  const double n = rounded - internal::kRound;
  const double r = (x - n * internal::kLn2High) - n * internal::kLn2Low;
  double p = 1.0 / 6227020800;
  p = p * r + 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 1.0 / 2;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return p * std::bit_cast<double>((std::bit_cast<uint64_t>(rounded) + 1023) << 52);
}

// e^x. Below kExpLowest: 0; above 709: infinity. Not for NaN.
inline double Exp(double x) {
  if (x < kExpLowest) return 0;
  return x > 709 ? std::numeric_limits<double>::infinity() : ExpInRange(x);
}

// Natural logarithm of a positive, finite x; 0 gives -infinity.
//
// x = 2^n m with m around 1; log m = 2 atanh((m - 1) / (m + 1)), whose series is cut below 1e-18.
inline double Log(double x) {
  if (x == 0) return -std::numeric_limits<double>::infinity();
  int exponent = -1023;
  if (x < std::numeric_limits<double>::min()) {  // subnormal
    x *= 18014398509481984.0;                    // 2^54
    exponent -= 54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int>(bits >> 52);
  double m = std::bit_cast<double>((bits & 0xfffffffffffffull) | (uint64_t{1023} << 52));
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double z = (m - 1) / (m + 1);
  const double z2 = z * z;
  double series = 0;
  for (int k = 23; k >= 3; k -= 2) series = (series + 1.0 / k) * z2;
  const double n = exponent;
  return n * internal::kLn2High + (2 * z + (2 * z * series + n * internal::kLn2Low));
}

// Sine and cosine of x radians, |x| <= 2^20.
//
// x = q pi/2 + r with |r| <= pi/4; both series are cut below 1e-17.
inline void SinCos(double x, double* sin, double* cos) {
  const double rounded = x * 0.63661977236758134 + internal::kRound;
  const double q = rounded - internal::kRound;
  // 33 bits of pi/2, so that q times it is exact, then the next 53.
  const double r = (x - q * 1.57079632673412561417) - q * 6.07710050650619224932e-11;
  const double r2 = r * r;
  double s = 0, c = 0;
  for (int k = 16; k >= 2; k -= 2) {
    s = -(1 + s) * r2 * (1.0 / (k * (k + 1)));
    c = -(1 + c) * r2 * (1.0 / (k * (k - 1)));
  }
  s = r + r * s;
  c = 1 + c;
  switch (std::bit_cast<uint64_t>(rounded) & 3) {
    case 0:
      *sin = s, *cos = c;
      break;
    case 1:
      *sin = c, *cos = -s;
      break;
    case 2:
      *sin = -s, *cos = -c;
      break;
    default:
      *sin = -c, *cos = s;
      break;
  }
}

}  // namespace headway::fixed_math

#endif  // HEADWAY_KERNELS_FIXED_MATH_H_
