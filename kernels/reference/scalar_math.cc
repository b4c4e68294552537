#include "kernels/reference/scalar_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/math_constants.h"
#include "runtime/tensor/half.h"

namespace headway::kernels::reference {
namespace {

float Polynomial(std::span<const float> coefficients, float r) {
  float p = coefficients[0];
  for (float c : coefficients.subspan(1)) p = std::fma(p, r, c);
  return p;
}

// p * 2^n, where `biased` is n + kRoundingBias.
float Scale(float p, float biased) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (std::bit_cast<uint32_t>(biased) << 23));
}

// The nearest even integer of a float of magnitude below 2^22.
int32_t Round(float x) {
  return static_cast<int32_t>(std::bit_cast<uint32_t>(x + kRoundingBias) -
                              std::bit_cast<uint32_t>(kRoundingBias));
}

// A NaN gives -limit.
float Clamp(float x, float limit) {
  const float above = x > -limit ? x : -limit;
  return above < limit ? above : limit;
}

// One plane of a row, zeros up to the stride.
void Quantise(std::span<const float> values, int stride, Q8Block* to) {
  std::memset(to, 0, static_cast<size_t>(stride / 32) * sizeof(Q8Block));
  for (size_t first = 0; first < values.size(); first += 32, ++to) {
    const std::span<const float> block = values.subspan(first, 32);
    // As integers, so that a NaN is the largest of all.
    uint32_t largest_bits = 0;
    for (float x : block) {
      largest_bits = std::max(largest_bits, std::bit_cast<uint32_t>(x) & 0x7fffffffu);
    }
    const float largest = std::bit_cast<float>(largest_bits);
    if (largest <= kSmallestBlock) continue;
    const float inverse = 127.0f / largest;
    for (int i = 0; i < 32; ++i) {
      to->q[i] = static_cast<int8_t>(Round(block[i] * inverse));
      to->sum += to->q[i];
    }
    to->scale = largest / 127.0f;
    to->scaled_sum = to->scale * static_cast<float>(to->sum);
  }
}

}  // namespace

float Exp(float x) {
  if (x != x) return x;
  if (x < kExpLowest) return 0;
  const float y = std::min(x, kExpHighest);
  const float t = std::fma(y, kLog2E, kRoundingBias);
  const float n = t - kRoundingBias;
  const float r = std::fma(n, kLn2Low, std::fma(n, -kLn2High, y));
  return Scale(Polynomial(kExpPolynomial, r), t);
}

float Exp2(float x) {
  if (x != x) return x;
  if (x < kExp2Lowest) return 0;
  const float t = x + kRoundingBias;
  return Scale(Polynomial(kExp2Polynomial, x - (t - kRoundingBias)), t);
}

float Silu(float x) { return x / (1 + Exp(-x)); }

float SumLanes(Lanes lanes) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

void StoreActivations(std::span<const float> values, const Activations& out, int row) {
  if (out.format == ActivationFormat::kF32) {
    float* to = out.f32(row);
    std::copy(values.begin(), values.end(), to);
    std::fill(to + values.size(), to + out.stride, 0.0f);
    return;
  }
  std::vector<float> rest(values.begin(), values.end());
  for (int plane = 0; plane < Q8Planes(out.format); ++plane) {
    Q8Block* to = out.q8(row, plane);
    Quantise(rest, out.stride, to);
    for (size_t i = 0; i < rest.size(); ++i) {
      rest[i] = std::fma(-static_cast<float>(to[i / 32].q[i % 32]), to[i / 32].scale, rest[i]);
    }
  }
}

void StoreKv(DType dtype, float value, std::byte* at) {
  if (dtype == DType::kF32) {
    const float v = Clamp(value, kLargestF32);
    std::memcpy(at, &v, sizeof(v));
    return;
  }
  const uint16_t v = dtype == DType::kF16 ? FloatToF16(Clamp(value, kLargestF16))
                                          : FloatToBf16(Clamp(value, kLargestBf16));
  std::memcpy(at, &v, sizeof(v));
}

float LoadKv(DType dtype, const std::byte* at) {
  if (dtype == DType::kF32) {
    float v;
    std::memcpy(&v, at, sizeof(v));
    return v;
  }
  uint16_t v;
  std::memcpy(&v, at, sizeof(v));
  return dtype == DType::kF16 ? F16ToFloat(v) : Bf16ToFloat(v);
}

}  // namespace headway::kernels::reference
