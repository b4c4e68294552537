#ifndef HEADWAY_KERNELS_CPU_VEC_SCALAR_H_
#define HEADWAY_KERNELS_CPU_VEC_SCALAR_H_

#include <cstdint>

#include "kernels/math_constants.h"

// Sixteen lanes as arrays, for any processor. What each operation means stands in vec_avx512.h.
namespace headway::kernels::cpu::HEADWAY_ISA {

#define HEADWAY_INLINE static inline
#define HEADWAY_INLINE_LAMBDA

constexpr int kDotRows = 2;
constexpr int kFloatRows = 2;
constexpr int kFloatColumns = 1;
constexpr int kSoftmaxRows = 1;
constexpr int kFlatRows = 4;

struct V {
  float a[16];
};
struct I {
  int32_t a[16];
};
struct B {
  uint8_t a[64];
};

template <class F>
HEADWAY_INLINE V Each(F f) {
  V r;
  for (int i = 0; i < 16; ++i) r.a[i] = f(i);
  return r;
}
HEADWAY_INLINE uint32_t Bits(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, 4);
  return u;
}
HEADWAY_INLINE float FromBits(uint32_t u) {
  float x;
  __builtin_memcpy(&x, &u, 4);
  return x;
}

HEADWAY_INLINE V Set(float x) {
  return Each([&](int) { return x; });
}
HEADWAY_INLINE V Zero() { return Set(0); }
HEADWAY_INLINE V Load(const float* p) {
  return Each([&](int i) { return p[i]; });
}
HEADWAY_INLINE void Store(float* p, V v) { __builtin_memcpy(p, v.a, sizeof(v.a)); }
HEADWAY_INLINE V Add(V x, V y) {
  return Each([&](int i) { return x.a[i] + y.a[i]; });
}
HEADWAY_INLINE V Sub(V x, V y) {
  return Each([&](int i) { return x.a[i] - y.a[i]; });
}
HEADWAY_INLINE V Mul(V x, V y) {
  return Each([&](int i) { return x.a[i] * y.a[i]; });
}
HEADWAY_INLINE V Div(V x, V y) {
  return Each([&](int i) { return x.a[i] / y.a[i]; });
}
HEADWAY_INLINE V Fma(V x, V y, V z) {
  return Each([&](int i) { return __builtin_fmaf(x.a[i], y.a[i], z.a[i]); });
}
HEADWAY_INLINE V Max(V x, V y) {
  return Each([&](int i) { return x.a[i] > y.a[i] ? x.a[i] : y.a[i]; });
}
HEADWAY_INLINE V Min(V x, V y) {
  return Each([&](int i) { return x.a[i] < y.a[i] ? x.a[i] : y.a[i]; });
}
HEADWAY_INLINE V SwapPairs(V x) {
  return Each([&](int i) { return x.a[i ^ 1]; });
}
HEADWAY_INLINE V ZeroWhereLess(V v, V x, V limit) {
  return Each([&](int i) { return x.a[i] < limit.a[i] ? 0.0f : v.a[i]; });
}
HEADWAY_INLINE V AddExponent(V p, V t) {
  return Each([&](int i) { return FromBits(Bits(p.a[i]) + (Bits(t.a[i]) << 23)); });
}
HEADWAY_INLINE V FirstLanes(V v, int n, V otherwise) {
  return Each([&](int i) { return i < n ? v.a[i] : otherwise.a[i]; });
}
HEADWAY_INLINE float SumLanes(V v) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v.a[i] = v.a[i] + v.a[i + half];
  }
  return v.a[0];
}
HEADWAY_INLINE float MaxLanes(V v) {
  float m = v.a[0];
  for (int i = 1; i < 16; ++i) m = v.a[i] > m ? v.a[i] : m;
  return m;
}
HEADWAY_INLINE float LargestMagnitude(V x, V y) {
  uint32_t m = 0;
  for (int i = 0; i < 16; ++i) {
    const uint32_t a = Bits(x.a[i]) & 0x7fffffffu;
    const uint32_t b = Bits(y.a[i]) & 0x7fffffffu;
    m = a > m ? a : m;
    m = b > m ? b : m;
  }
  return FromBits(m);
}

struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
HEADWAY_INLINE float ToFloat(F16 h) {
  const uint32_t sign = static_cast<uint32_t>(h.bits & 0x8000) << 16;
  const uint32_t exponent = (h.bits >> 10) & 31;
  const uint32_t mantissa = h.bits & 1023;
  if (exponent == 31) return FromBits(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0) return FromBits(sign | Bits(static_cast<float>(mantissa) * 0x1p-24f));
  return FromBits(sign | (exponent + 112) << 23 | mantissa << 13);
}
HEADWAY_INLINE V Load(const F16* p) {
  return Each([&](int i) { return ToFloat(p[i]); });
}
HEADWAY_INLINE V Load(const Bf16* p) {
  return Each([&](int i) { return FromBits(static_cast<uint32_t>(p[i].bits) << 16); });
}
HEADWAY_INLINE V ClampFinite(V v, float limit) { return Min(Max(v, Set(-limit)), Set(limit)); }
HEADWAY_INLINE void StoreFinite(float* p, V v) { Store(p, ClampFinite(v, kLargestF32)); }
HEADWAY_INLINE uint16_t FiniteToF16(float f) {
  const uint32_t u = Bits(f);
  const uint32_t sign = (u >> 16) & 0x8000;
  const uint32_t a = u & 0x7fffffff;
  if (a < 0x38800000) {  // subnormal: at 0.5 the last bit of a float is worth 2^-24
    return static_cast<uint16_t>(sign | (Bits(FromBits(a) + 0.5f) - Bits(0.5f)));
  }
  return static_cast<uint16_t>(sign | ((a + 0xfff + ((a >> 13) & 1)) - 0x38000000) >> 13);
}
HEADWAY_INLINE void StoreFinite(F16* p, V v) {
  const V x = ClampFinite(v, kLargestF16);
  for (int i = 0; i < 16; ++i) p[i].bits = FiniteToF16(x.a[i]);
}
HEADWAY_INLINE void StoreFinite(Bf16* p, V v) {
  const V x = ClampFinite(v, kLargestBf16);
  for (int i = 0; i < 16; ++i) {
    const uint32_t u = Bits(x.a[i]);
    p[i].bits = static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
}

HEADWAY_INLINE I IntSet(int32_t x) {
  I r;
  for (int32_t& lane : r.a) lane = x;
  return r;
}
HEADWAY_INLINE I IntZero() { return IntSet(0); }
HEADWAY_INLINE V ToFloat(I v) {
  return Each([&](int i) { return static_cast<float>(v.a[i]); });
}
HEADWAY_INLINE int32_t StoreInt8(int8_t* p, V x, V y) {
  int32_t sum = 0;
  for (int i = 0; i < 32; ++i) {
    const float value = i < 16 ? x.a[i] : y.a[i - 16];
    p[i] = static_cast<int8_t>(Bits(value + kRoundingBias) - Bits(kRoundingBias));
    sum += p[i];
  }
  return sum;
}

HEADWAY_INLINE B LoadBytes(const uint8_t* p) {
  B b;
  __builtin_memcpy(b.a, p, 64);
  return b;
}
HEADWAY_INLINE void StoreBytes(uint8_t* p, B b) { __builtin_memcpy(p, b.a, 64); }
HEADWAY_INLINE B LowNibbles(B b) {
  for (uint8_t& x : b.a) x &= 15;
  return b;
}
HEADWAY_INLINE B HighNibbles(B b) {
  for (uint8_t& x : b.a) x >>= 4;
  return b;
}
HEADWAY_INLINE B Four(const int8_t* x) {
  B b;
  for (int i = 0; i < 16; ++i) __builtin_memcpy(b.a + 4 * i, x, 4);
  return b;
}
HEADWAY_INLINE I NibbleStart() { return IntZero(); }
HEADWAY_INLINE I NibbleStartMinus8(int32_t sum) { return IntSet(-8 * sum); }
HEADWAY_INLINE I DotNibbles(I acc, B w, B x) {
  for (int i = 0; i < 64; ++i) {
    acc.a[i / 4] += static_cast<int32_t>(w.a[i]) * static_cast<int8_t>(x.a[i]);
  }
  return acc;
}
HEADWAY_INLINE V NibbleSum(I acc) { return ToFloat(acc); }
HEADWAY_INLINE I ByteStart(int32_t) { return IntZero(); }
HEADWAY_INLINE I DotBytes(I acc, B w, B x) {
  for (int i = 0; i < 64; ++i) {
    acc.a[i / 4] += (static_cast<int32_t>(w.a[i]) - 128) * static_cast<int8_t>(x.a[i]);
  }
  return acc;
}
HEADWAY_INLINE V ByteSum(I acc) { return ToFloat(acc); }
HEADWAY_INLINE void Prefetch(const void*) {}

}  // namespace headway::kernels::cpu::HEADWAY_ISA

#endif  // HEADWAY_KERNELS_CPU_VEC_SCALAR_H_
