#ifndef HEADWAY_KERNELS_CPU_VEC_SSE42_H_
#define HEADWAY_KERNELS_CPU_VEC_SSE42_H_

#include <nmmintrin.h>

#include <cstdint>

#include "kernels/math_constants.h"

// Sixteen lanes as four quarters of four, for SSE4.2. What each operation means stands in
// vec_avx512.h. These processors have neither fused multiply-add nor half floats: both are made of
// exact steps here.
namespace headway::kernels::cpu::HEADWAY_ISA {

#define HEADWAY_INLINE static inline __attribute__((always_inline))
#define HEADWAY_INLINE_LAMBDA __attribute__((always_inline))

constexpr int kDotRows = 2;
constexpr int kFloatRows = 2;
constexpr int kFloatColumns = 1;
constexpr int kSoftmaxRows = 1;
constexpr int kFlatRows = 8;

struct V {
  __m128 a, b, c, d;
};
struct I {
  __m128i a, b, c, d;
};
struct B {
  __m128i a, b, c, d;
};

template <class To, class F, class X>
HEADWAY_INLINE To Each(F f, X x) {
  return {f(x.a), f(x.b), f(x.c), f(x.d)};
}
template <class To, class F, class X, class Y>
HEADWAY_INLINE To Each(F f, X x, Y y) {
  return {f(x.a, y.a), f(x.b, y.b), f(x.c, y.c), f(x.d, y.d)};
}

HEADWAY_INLINE V Set(float x) {
  const __m128 v = _mm_set1_ps(x);
  return {v, v, v, v};
}
HEADWAY_INLINE V Zero() { return Set(0); }
HEADWAY_INLINE V Load(const float* p) {
  return {_mm_loadu_ps(p), _mm_loadu_ps(p + 4), _mm_loadu_ps(p + 8), _mm_loadu_ps(p + 12)};
}
HEADWAY_INLINE void Store(float* p, V v) {
  _mm_storeu_ps(p, v.a);
  _mm_storeu_ps(p + 4, v.b);
  _mm_storeu_ps(p + 8, v.c);
  _mm_storeu_ps(p + 12, v.d);
}
HEADWAY_INLINE V Add(V x, V y) {
  return Each<V>([](__m128 p, __m128 q) { return _mm_add_ps(p, q); }, x, y);
}
HEADWAY_INLINE V Sub(V x, V y) {
  return Each<V>([](__m128 p, __m128 q) { return _mm_sub_ps(p, q); }, x, y);
}
HEADWAY_INLINE V Mul(V x, V y) {
  return Each<V>([](__m128 p, __m128 q) { return _mm_mul_ps(p, q); }, x, y);
}
HEADWAY_INLINE V Div(V x, V y) {
  return Each<V>([](__m128 p, __m128 q) { return _mm_div_ps(p, q); }, x, y);
}
HEADWAY_INLINE V Max(V x, V y) {
  return Each<V>([](__m128 p, __m128 q) { return _mm_max_ps(p, q); }, x, y);
}
HEADWAY_INLINE V Min(V x, V y) {
  return Each<V>([](__m128 p, __m128 q) { return _mm_min_ps(p, q); }, x, y);
}

// x * y + z of two lanes, to be rounded to float: the product of two floats is exact as a double,
// and a sum that is rounded to odd (its last bit set where something was lost) rounds to float as
// the exact sum does, since a double has more than two bits beyond a float's. Boldo and Melquiond,
// "Emulation of FMA and correctly rounded sums", 2008.
HEADWAY_INLINE __m128d SumToOdd(__m128d product, __m128d z) {
  const __m128d sum = _mm_add_pd(product, z);
  const __m128d of_z = _mm_sub_pd(sum, product);
  // What the sum lost, exactly; NaN where the sum is infinite or NaN, which compares as nothing
  // lost.
  const __m128d lost = _mm_add_pd(_mm_sub_pd(product, _mm_sub_pd(sum, of_z)), _mm_sub_pd(z, of_z));
  const __m128d zero = _mm_setzero_pd();
  const __m128i more = _mm_castpd_si128(_mm_cmpgt_pd(lost, zero));
  const __m128i less = _mm_castpd_si128(_mm_cmplt_pd(lost, zero));
  const __m128i bits = _mm_castpd_si128(sum);
  const __m128i negative = _mm_castpd_si128(_mm_cmplt_pd(sum, zero));
  // Toward the exact sum: away from zero where what was lost has the sum's sign.
  const __m128i away =
      _mm_or_si128(_mm_andnot_si128(negative, more), _mm_and_si128(negative, less));
  const __m128i inexact = _mm_or_si128(more, less);
  const __m128i one = _mm_set_epi32(0, 1, 0, 1);
  const __m128i even = _mm_andnot_si128(bits, one);
  // Of an even sum the neighbour toward the exact one is odd: + 1, or - 1.
  const __m128i up = _mm_and_si128(even, away);
  const __m128i down = _mm_and_si128(even, _mm_andnot_si128(away, inexact));
  return _mm_castsi128_pd(_mm_sub_epi64(_mm_add_epi64(bits, up), down));
}
HEADWAY_INLINE __m128 FmaQuarter(__m128 x, __m128 y, __m128 z) {
  const __m128d low = SumToOdd(_mm_mul_pd(_mm_cvtps_pd(x), _mm_cvtps_pd(y)), _mm_cvtps_pd(z));
  const __m128 xh = _mm_movehl_ps(x, x), yh = _mm_movehl_ps(y, y), zh = _mm_movehl_ps(z, z);
  const __m128d high = SumToOdd(_mm_mul_pd(_mm_cvtps_pd(xh), _mm_cvtps_pd(yh)), _mm_cvtps_pd(zh));
  return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}
HEADWAY_INLINE V Fma(V x, V y, V z) {
  return {FmaQuarter(x.a, y.a, z.a), FmaQuarter(x.b, y.b, z.b), FmaQuarter(x.c, y.c, z.c),
          FmaQuarter(x.d, y.d, z.d)};
}

HEADWAY_INLINE V SwapPairs(V x) {
  return Each<V>([](__m128 p) { return _mm_shuffle_ps(p, p, 0xB1); }, x);
}
HEADWAY_INLINE __m128 ZeroQuarter(__m128 v, __m128 x, __m128 limit) {
  return _mm_and_ps(v, _mm_cmpnlt_ps(x, limit));
}
HEADWAY_INLINE V ZeroWhereLess(V v, V x, V limit) {
  return {ZeroQuarter(v.a, x.a, limit.a), ZeroQuarter(v.b, x.b, limit.b),
          ZeroQuarter(v.c, x.c, limit.c), ZeroQuarter(v.d, x.d, limit.d)};
}
HEADWAY_INLINE V AddExponent(V p, V t) {
  return Each<V>(
      [](__m128 x, __m128 y) {
        return _mm_castsi128_ps(
            _mm_add_epi32(_mm_castps_si128(x), _mm_slli_epi32(_mm_castps_si128(y), 23)));
      },
      p, t);
}
HEADWAY_INLINE __m128 FirstOfQuarter(__m128 v, int n, __m128 otherwise) {
  const __m128i first = _mm_cmpgt_epi32(_mm_set1_epi32(n), _mm_setr_epi32(0, 1, 2, 3));
  return _mm_blendv_ps(otherwise, v, _mm_castsi128_ps(first));
}
HEADWAY_INLINE V FirstLanes(V v, int n, V otherwise) {
  return {FirstOfQuarter(v.a, n, otherwise.a), FirstOfQuarter(v.b, n - 4, otherwise.b),
          FirstOfQuarter(v.c, n - 8, otherwise.c), FirstOfQuarter(v.d, n - 12, otherwise.d)};
}
HEADWAY_INLINE float SumLanes(V v) {
  const __m128 s4 = _mm_add_ps(_mm_add_ps(v.a, v.c), _mm_add_ps(v.b, v.d));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
HEADWAY_INLINE float MaxLanes(V v) {
  const __m128 s4 = _mm_max_ps(_mm_max_ps(v.a, v.c), _mm_max_ps(v.b, v.d));
  const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_max_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
HEADWAY_INLINE __m128i LargestBits(V x) {
  const __m128i magnitude = _mm_set1_epi32(0x7fffffff);
  const I bits =
      Each<I>([&](__m128 p) { return _mm_and_si128(_mm_castps_si128(p), magnitude); }, x);
  return _mm_max_epi32(_mm_max_epi32(bits.a, bits.b), _mm_max_epi32(bits.c, bits.d));
}
HEADWAY_INLINE float LargestMagnitude(V x, V y) {
  __m128i m = _mm_max_epi32(LargestBits(x), LargestBits(y));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1));
  return _mm_cvtss_f32(_mm_castsi128_ps(m));
}

struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
// Four halves in 32-bit lanes. Their exponent and mantissa, moved to a float's place, are the value
// times 2^-112, exactly, subnormal ones included; infinities and NaNs get a float's exponent.
HEADWAY_INLINE __m128 FromHalf(__m128i h) {
  const __m128i magnitude = _mm_and_si128(h, _mm_set1_epi32(0x7fff));
  const __m128i sign = _mm_slli_epi32(_mm_and_si128(h, _mm_set1_epi32(0x8000)), 16);
  const __m128 scaled = _mm_mul_ps(_mm_castsi128_ps(_mm_slli_epi32(magnitude, 13)),
                                   _mm_castsi128_ps(_mm_set1_epi32((127 + 112) << 23)));
  const __m128i special =
      _mm_and_si128(_mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7bff)), _mm_set1_epi32(0x7f800000));
  return _mm_or_ps(scaled, _mm_castsi128_ps(_mm_or_si128(sign, special)));
}
HEADWAY_INLINE V Load(const F16* p) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8));
  const __m128i zero = _mm_setzero_si128();
  return {FromHalf(_mm_unpacklo_epi16(low, zero)), FromHalf(_mm_unpackhi_epi16(low, zero)),
          FromHalf(_mm_unpacklo_epi16(high, zero)), FromHalf(_mm_unpackhi_epi16(high, zero))};
}
HEADWAY_INLINE V Load(const Bf16* p) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8));
  const __m128i zero = _mm_setzero_si128();
  return {_mm_castsi128_ps(_mm_unpacklo_epi16(zero, low)),
          _mm_castsi128_ps(_mm_unpackhi_epi16(zero, low)),
          _mm_castsi128_ps(_mm_unpacklo_epi16(zero, high)),
          _mm_castsi128_ps(_mm_unpackhi_epi16(zero, high))};
}
HEADWAY_INLINE V ClampFinite(V v, float limit) { return Min(Max(v, Set(-limit)), Set(limit)); }
HEADWAY_INLINE void StoreFinite(float* p, V v) { Store(p, ClampFinite(v, kLargestF32)); }
// A finite half in the low bits of each lane, rounded to nearest even.
HEADWAY_INLINE __m128i ToHalf(__m128 x) {
  const __m128i u = _mm_castps_si128(x);
  const __m128i sign = _mm_and_si128(_mm_srli_epi32(u, 16), _mm_set1_epi32(0x8000));
  const __m128i a = _mm_and_si128(u, _mm_set1_epi32(0x7fffffff));
  // Subnormal halves: at 0.5 the last bit of a float is worth 2^-24.
  const __m128 half = _mm_set1_ps(0.5f);
  const __m128i small = _mm_sub_epi32(_mm_castps_si128(_mm_add_ps(_mm_castsi128_ps(a), half)),
                                      _mm_castps_si128(half));
  const __m128i odd = _mm_and_si128(_mm_srli_epi32(a, 13), _mm_set1_epi32(1));
  const __m128i normal =
      _mm_srli_epi32(_mm_sub_epi32(_mm_add_epi32(_mm_add_epi32(a, _mm_set1_epi32(0xfff)), odd),
                                   _mm_set1_epi32(0x38000000)),
                     13);
  const __m128i is_small = _mm_cmpgt_epi32(_mm_set1_epi32(0x38800000), a);
  return _mm_or_si128(sign, _mm_blendv_epi8(normal, small, is_small));
}
HEADWAY_INLINE void StoreFinite(F16* p, V v) {
  const I h = Each<I>([](__m128 x) { return ToHalf(x); }, ClampFinite(v, kLargestF16));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packus_epi32(h.a, h.b));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm_packus_epi32(h.c, h.d));
}
HEADWAY_INLINE void StoreFinite(Bf16* p, V v) {
  const I h = Each<I>(
      [](__m128 x) {
        const __m128i u = _mm_castps_si128(x);
        const __m128i odd = _mm_and_si128(_mm_srli_epi32(u, 16), _mm_set1_epi32(1));
        return _mm_srli_epi32(_mm_add_epi32(_mm_add_epi32(u, _mm_set1_epi32(0x7fff)), odd), 16);
      },
      ClampFinite(v, kLargestBf16));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packus_epi32(h.a, h.b));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm_packus_epi32(h.c, h.d));
}

HEADWAY_INLINE I IntSet16(int16_t x) {
  const __m128i v = _mm_set1_epi16(x);
  return {v, v, v, v};
}
HEADWAY_INLINE I IntZero() { return IntSet16(0); }
HEADWAY_INLINE V ToFloat(I v) {
  return Each<V>([](__m128i i) { return _mm_cvtepi32_ps(i); }, v);
}
HEADWAY_INLINE int32_t StoreInt8(int8_t* p, V x, V y) {
  const auto round = [](__m128 v) { return _mm_cvtps_epi32(v); };
  const I i = Each<I>(round, x), j = Each<I>(round, y);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi16(_mm_packs_epi32(i.a, i.b), _mm_packs_epi32(i.c, i.d)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 16),
                   _mm_packs_epi16(_mm_packs_epi32(j.a, j.b), _mm_packs_epi32(j.c, j.d)));
  const I s = Each<I>([](__m128i q, __m128i r) { return _mm_add_epi32(q, r); }, i, j);
  __m128i sum = _mm_add_epi32(_mm_add_epi32(s.a, s.b), _mm_add_epi32(s.c, s.d));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1)));
}

HEADWAY_INLINE B LoadBytes(const uint8_t* p) {
  const __m128i* v = reinterpret_cast<const __m128i*>(p);
  return {_mm_load_si128(v), _mm_load_si128(v + 1), _mm_load_si128(v + 2), _mm_load_si128(v + 3)};
}
HEADWAY_INLINE void StoreBytes(uint8_t* p, B b) {
  __m128i* v = reinterpret_cast<__m128i*>(p);
  _mm_store_si128(v, b.a);
  _mm_store_si128(v + 1, b.b);
  _mm_store_si128(v + 2, b.c);
  _mm_store_si128(v + 3, b.d);
}
HEADWAY_INLINE B LowNibbles(B b) {
  return Each<B>([](__m128i x) { return _mm_and_si128(x, _mm_set1_epi8(15)); }, b);
}
HEADWAY_INLINE B HighNibbles(B b) {
  return LowNibbles(Each<B>([](__m128i x) { return _mm_srli_epi16(x, 4); }, b));
}
HEADWAY_INLINE B Four(const int8_t* x) {
  int32_t v;
  __builtin_memcpy(&v, x, 4);
  const __m128i four = _mm_set1_epi32(v);
  return {four, four, four, four};
}

// In 16 bits until the block's end, as in vec_avx2.h.
HEADWAY_INLINE I NibbleStart() { return IntZero(); }
HEADWAY_INLINE I NibbleStartMinus8(int32_t sum) { return IntSet16(static_cast<int16_t>(-4 * sum)); }
HEADWAY_INLINE __m128i DotNibblesQuarter(__m128i acc, __m128i w, __m128i x) {
  return _mm_add_epi16(acc, _mm_maddubs_epi16(w, x));
}
HEADWAY_INLINE I DotNibbles(I acc, B w, B x) {
  return {DotNibblesQuarter(acc.a, w.a, x.a), DotNibblesQuarter(acc.b, w.b, x.b),
          DotNibblesQuarter(acc.c, w.c, x.c), DotNibblesQuarter(acc.d, w.d, x.d)};
}
HEADWAY_INLINE V NibbleSum(I acc) {
  return Each<V>([](__m128i i) { return _mm_cvtepi32_ps(_mm_madd_epi16(i, _mm_set1_epi16(1))); },
                 acc);
}
HEADWAY_INLINE I ByteStart(int32_t) { return IntZero(); }
HEADWAY_INLINE __m128i DotBytesQuarter(__m128i acc, __m128i w, __m128i x) {
  w = _mm_xor_si128(w, _mm_set1_epi8(static_cast<char>(0x80)));
  const __m128i pairs = _mm_maddubs_epi16(_mm_abs_epi8(w), _mm_sign_epi8(x, w));
  return _mm_add_epi32(acc, _mm_madd_epi16(pairs, _mm_set1_epi16(1)));
}
HEADWAY_INLINE I DotBytes(I acc, B w, B x) {
  return {DotBytesQuarter(acc.a, w.a, x.a), DotBytesQuarter(acc.b, w.b, x.b),
          DotBytesQuarter(acc.c, w.c, x.c), DotBytesQuarter(acc.d, w.d, x.d)};
}
HEADWAY_INLINE V ByteSum(I acc) { return ToFloat(acc); }

HEADWAY_INLINE void Prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

}  // namespace headway::kernels::cpu::HEADWAY_ISA

#endif  // HEADWAY_KERNELS_CPU_VEC_SSE42_H_
