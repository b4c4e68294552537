#ifndef HEADWAY_KERNELS_MATH_CONSTANTS_H_
#define HEADWAY_KERNELS_MATH_CONSTANTS_H_

// The float32 exponentials of the kernels, as operations and constants that every implementation
// shares. No functions here: this header is compiled with the flags of several processors.
namespace headway::kernels {

// Adding it rounds a float of magnitude below 2^22 to an integer, which its low bits then hold.
inline constexpr float kRoundingBias = 12582912.0f;  // 1.5 * 2^23

// e^x: y = min(88, max(-60, x)); t = fma(y, log2 e, bias); n = t - bias;
//   r = fma(n, -ln2_high, y), then fma(n, ln2_low, r); p = polynomial(r), Horner by fma;
//   result = p * 2^n, and exactly 0 where x < -60. Relative error below 2e-7.
inline constexpr float kExpLowest = -60.0f;
inline constexpr float kExpHighest = 88.0f;
inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr float kLn2High = 0.693359375f;
inline constexpr float kLn2Low = 2.12194440e-4f;  // ln2_high - ln 2
// Least relative error on [-ln(2)/2, ln(2)/2] among those with p(0) = 1; highest power first.
inline constexpr float kExpPolynomial[7] = {
    0.00138436526f, 0.0083741555f, 0.0416680016f, 0.166664317f, 0.49999994f, 1.0f, 1.0f};

// 2^x for x <= 0: y = max(-87, x); t = y + bias; r = y - (t - bias), exact; p = polynomial(r);
//   result = p * 2^(t - bias), exactly 1 at 0 and exactly 0 where x < -87, so that no product with
//   a kept probability comes near underflow. Relative error below 2e-7.
inline constexpr float kExp2Lowest = -87.0f;
inline constexpr float kExp2Polynomial[7] = {0.000153533605f,
                                             0.00133988739f,
                                             0.00961843692f,
                                             0.0555033237f,
                                             0.240226477f,
                                             0.693147182f,
                                             1.0f};

// Activations of a block whose largest magnitude is not above this are stored as zeros.
inline constexpr float kSmallestBlock = 1e-30f;

// The largest finite values of the cache's number formats: what lies beyond, and NaN, is clamped.
inline constexpr float kLargestF16 = 65504.0f;
inline constexpr float kLargestBf16 = 3.38953139e38f;
inline constexpr float kLargestF32 = 3.40282347e38f;

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_MATH_CONSTANTS_H_
