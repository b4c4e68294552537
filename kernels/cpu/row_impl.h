#ifndef HEADWAY_KERNELS_CPU_ROW_IMPL_H_
#define HEADWAY_KERNELS_CPU_ROW_IMPL_H_

#include "kernels/cpu/table.h"

// Element-wise pieces: exponentials, SiLU, norm, quantisation of activations.
namespace headway::kernels::cpu::HEADWAY_ISA {

HEADWAY_INLINE V Polynomial(const float (&coefficients)[7], V r) {
  V p = Set(coefficients[0]);
#pragma GCC unroll 6
  for (int i = 1; i < 7; ++i) p = Fma(p, r, Set(coefficients[i]));
  return p;
}

// Both pass a NaN on: max and min give their second operand then.
HEADWAY_INLINE V Exp(V x) {
  const V y = Min(Set(kExpHighest), Max(Set(kExpLowest), x));
  const V t = Fma(y, Set(kLog2E), Set(kRoundingBias));
  const V n = Sub(t, Set(kRoundingBias));
  const V r = Fma(n, Set(kLn2Low), Fma(n, Set(-kLn2High), y));
  return ZeroWhereLess(AddExponent(Polynomial(kExpPolynomial, r), t), x, Set(kExpLowest));
}

HEADWAY_INLINE V Exp2(V x) {
  const V y = Max(Set(kExp2Lowest), x);
  const V t = Add(y, Set(kRoundingBias));
  const V r = Sub(y, Sub(t, Set(kRoundingBias)));
  return ZeroWhereLess(AddExponent(Polynomial(kExp2Polynomial, r), t), x, Set(kExp2Lowest));
}

HEADWAY_INLINE V Silu(V x) { return Div(x, Add(Set(1.0f), Exp(Sub(Zero(), x)))); }

HEADWAY_INLINE V LoadFirst(const float* p, int count) {  // zeros in the other lanes
  float lanes[16] = {};
  for (int i = 0; i < count; ++i) lanes[i] = p[i];
  return Load(lanes);
}

HEADWAY_INLINE void StoreFirst(float* p, V v, int count) {
  float lanes[16];
  Store(lanes, v);
  for (int i = 0; i < count; ++i) p[i] = lanes[i];
}

// What 32 values are multiplied with to give integers, and those to give the values.
struct BlockScale {
  float inverse, scale;
};

HEADWAY_INLINE BlockScale QuantiseBlock(V a, V b, Q8Block* out) {
  const float largest = LargestMagnitude(a, b);
  const bool zero = largest <= kSmallestBlock;
  const BlockScale s = {zero ? 0.0f : 127.0f / largest, zero ? 0.0f : largest / 127.0f};
  const V inverse = Set(s.inverse);
  const int32_t sum = StoreInt8(out->q, Mul(a, inverse), Mul(b, inverse));
  out->scale = s.scale;
  out->scaled_sum = s.scale * static_cast<float>(sum);
  out->sum = sum;
  out->reserved = 0;
  return s;
}

// What the integers of x leave of it.
HEADWAY_INLINE V Remainder(V x, BlockScale s) {
  const V bias = Set(kRoundingBias);
  const V q = Sub(Add(Mul(x, Set(s.inverse)), bias), bias);
  return Fma(q, Set(-s.scale), x);
}

static void Quantise(const float* x, int width, Q8Block* out) {
  for (int i = 0; i < width; i += 32) QuantiseBlock(Load(x + i), Load(x + i + 16), out + i / 32);
}

static void Norm(const NormRow& n) {
  const int whole = n.width / 16 * 16;
  const int rest = n.width - whole;
  V squares = Zero();
  for (int i = 0; i < whole; i += 16) {
    const V x = Load(n.input + i);
    squares = Fma(x, x, squares);
  }
  if (rest > 0) {
    const V x = LoadFirst(n.input + whole, rest);
    squares = Fma(x, x, squares);
  }
  const float mean = SumLanes(squares) / static_cast<float>(n.width);
  const V scale = Set(1.0f / __builtin_sqrtf(mean + n.epsilon));
  auto scaled = [&](int i) { return Mul(Mul(Load(n.input + i), scale), Load(n.weight + i)); };
  if (n.planes > 0) {
    const int blocks = n.stride / 32;
    Q8Block* out = static_cast<Q8Block*>(n.output);
    for (int b = 0; b < blocks; ++b) {
      const bool beyond = 32 * b >= n.width;
      const V x = beyond ? Zero() : scaled(32 * b), y = beyond ? Zero() : scaled(32 * b + 16);
      const BlockScale s = QuantiseBlock(x, y, out + b);
      if (n.planes == 2) QuantiseBlock(Remainder(x, s), Remainder(y, s), out + blocks + b);
    }
    return;
  }
  float* out = static_cast<float*>(n.output);
  for (int i = 0; i < whole; i += 16) Store(out + i, scaled(i));
  if (rest > 0) {
    StoreFirst(out + whole,
               Mul(Mul(LoadFirst(n.input + whole, rest), scale), LoadFirst(n.weight + whole, rest)),
               rest);
  }
  for (int i = n.width; i < n.stride; ++i) out[i] = 0;
}

}  // namespace headway::kernels::cpu::HEADWAY_ISA

#endif  // HEADWAY_KERNELS_CPU_ROW_IMPL_H_
