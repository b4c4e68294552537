#ifndef HEADWAY_KERNELS_CPU_VEC_AVX2_H_
#define HEADWAY_KERNELS_CPU_VEC_AVX2_H_

#include <immintrin.h>

#include <cstdint>

#include "kernels/math_constants.h"

// Sixteen lanes as two halves of eight, for AVX2 + FMA + F16C. What each operation means stands in
// vec_avx512.h.
namespace headway::kernels::cpu::HEADWAY_ISA {

#define HEADWAY_INLINE static inline __attribute__((always_inline))
#define HEADWAY_INLINE_LAMBDA __attribute__((always_inline))

// 12 accumulators of 16 registers; float sums of quantised linears wait in the first-level cache.
constexpr int kDotRows = 3;
constexpr int kFloatRows = 3;
constexpr int kFloatColumns = 2;
constexpr int kSoftmaxRows = 2;
constexpr int kFlatRows = 8;

struct V {
  __m256 a, b;
};
struct I {
  __m256i a, b;
};
struct B {
  __m256i a, b;
};

HEADWAY_INLINE V Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
HEADWAY_INLINE V Set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
HEADWAY_INLINE V Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
HEADWAY_INLINE void Store(float* p, V v) {
  _mm256_storeu_ps(p, v.a);
  _mm256_storeu_ps(p + 8, v.b);
}
HEADWAY_INLINE V Add(V x, V y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
HEADWAY_INLINE V Sub(V x, V y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
HEADWAY_INLINE V Mul(V x, V y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
HEADWAY_INLINE V Div(V x, V y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
HEADWAY_INLINE V Fma(V x, V y, V z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
HEADWAY_INLINE V Max(V x, V y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
HEADWAY_INLINE V Min(V x, V y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
HEADWAY_INLINE V SwapPairs(V x) {
  return {_mm256_permute_ps(x.a, 0xB1), _mm256_permute_ps(x.b, 0xB1)};
}
HEADWAY_INLINE V ZeroWhereLess(V v, V x, V limit) {
  return {_mm256_and_ps(v.a, _mm256_cmp_ps(x.a, limit.a, _CMP_NLT_UQ)),
          _mm256_and_ps(v.b, _mm256_cmp_ps(x.b, limit.b, _CMP_NLT_UQ))};
}
HEADWAY_INLINE __m256 AddExponentHalf(__m256 p, __m256 t) {
  return _mm256_castsi256_ps(
      _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
}
HEADWAY_INLINE V AddExponent(V p, V t) {
  return {AddExponentHalf(p.a, t.a), AddExponentHalf(p.b, t.b)};
}
HEADWAY_INLINE V FirstLanes(V v, int n, V otherwise) {
  const __m256i i = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 first = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), i));
  const __m256 second = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), i));
  return {_mm256_blendv_ps(otherwise.a, v.a, first), _mm256_blendv_ps(otherwise.b, v.b, second)};
}
HEADWAY_INLINE float SumLanes(V v) {
  const __m256 s8 = _mm256_add_ps(v.a, v.b);
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
HEADWAY_INLINE float MaxLanes(V v) {
  const __m256 s8 = _mm256_max_ps(v.a, v.b);
  const __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_max_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
HEADWAY_INLINE float LargestMagnitude(V x, V y) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  const __m256i larger =
      _mm256_max_epi32(_mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(x.a), magnitude),
                                        _mm256_and_si256(_mm256_castps_si256(x.b), magnitude)),
                       _mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(y.a), magnitude),
                                        _mm256_and_si256(_mm256_castps_si256(y.b), magnitude)));
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(larger), _mm256_extracti128_si256(larger, 1));
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
HEADWAY_INLINE V Load(const F16* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
HEADWAY_INLINE __m256 LoadHalf(const Bf16* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(
      _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}
HEADWAY_INLINE V Load(const Bf16* p) { return {LoadHalf(p), LoadHalf(p + 8)}; }
HEADWAY_INLINE V ClampFinite(V v, float limit) { return Min(Max(v, Set(-limit)), Set(limit)); }
HEADWAY_INLINE void StoreFinite(float* p, V v) { Store(p, ClampFinite(v, kLargestF32)); }
HEADWAY_INLINE void StoreFinite(F16* p, V v) {
  const V x = ClampFinite(v, kLargestF16);
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, kNearest));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, kNearest));
}
HEADWAY_INLINE __m256i RoundToBf16(__m256 x) {  // in the low halves
  const __m256i u = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd),
                           16);
}
HEADWAY_INLINE void StoreFinite(Bf16* p, V v) {
  const V x = ClampFinite(v, kLargestBf16);
  const __m256i packed = _mm256_packus_epi32(RoundToBf16(x.a), RoundToBf16(x.b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xD8));
}

HEADWAY_INLINE I IntZero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
HEADWAY_INLINE V ToFloat(I v) { return {_mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b)}; }
HEADWAY_INLINE int32_t StoreInt8(int8_t* p, V x, V y) {
  const __m256i a = _mm256_cvtps_epi32(x.a);
  const __m256i b = _mm256_cvtps_epi32(x.b);
  const __m256i c = _mm256_cvtps_epi32(y.a);
  const __m256i d = _mm256_cvtps_epi32(y.b);
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
  _mm256_storeu_si256(
      reinterpret_cast<__m256i*>(p),
      _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  const __m256i s8 = _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(s8), _mm256_extracti128_si256(s8, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1)));
}

HEADWAY_INLINE B LoadBytes(const uint8_t* p) {
  return {_mm256_load_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_load_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
HEADWAY_INLINE void StoreBytes(uint8_t* p, B b) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(p), b.a);
  _mm256_store_si256(reinterpret_cast<__m256i*>(p + 32), b.b);
}
HEADWAY_INLINE B LowNibbles(B b) {
  const __m256i m = _mm256_set1_epi8(15);
  return {_mm256_and_si256(b.a, m), _mm256_and_si256(b.b, m)};
}
HEADWAY_INLINE B HighNibbles(B b) {
  return LowNibbles({_mm256_srli_epi16(b.a, 4), _mm256_srli_epi16(b.b, 4)});
}
HEADWAY_INLINE B Four(const int8_t* x) {
  int32_t v;
  __builtin_memcpy(&v, x, 4);
  return {_mm256_set1_epi32(v), _mm256_set1_epi32(v)};
}

// Nibbles: two products a 16-bit lane and eight steps a block stay within 15 * 127 * 2 * 8 < 2^15,
// so they add up in 16 bits and NibbleSum widens once. Minus eight times the sum of all activations
// is minus four times it in both halves; what wraps in between comes back, as the result fits.
HEADWAY_INLINE I NibbleStart() { return IntZero(); }
HEADWAY_INLINE I NibbleStartMinus8(int32_t sum) {
  const __m256i start = _mm256_set1_epi16(static_cast<int16_t>(-4 * sum));
  return {start, start};
}
HEADWAY_INLINE __m256i DotNibblesHalf(__m256i acc, __m256i w, __m256i x) {
  acc = _mm256_add_epi16(acc, _mm256_maddubs_epi16(w, x));
  // Left alone, the compiler turns the eight additions into a tree: all products first, most of
  // them spilled. A third of the speed.
  asm("" : "+x"(acc));
  return acc;
}
HEADWAY_INLINE I DotNibbles(I acc, B w, B x) {
  return {DotNibblesHalf(acc.a, w.a, x.a), DotNibblesHalf(acc.b, w.b, x.b)};
}
HEADWAY_INLINE V NibbleSum(I acc) {
  const __m256i one = _mm256_set1_epi16(1);
  return ToFloat({_mm256_madd_epi16(acc.a, one), _mm256_madd_epi16(acc.b, one)});
}
// An unsigned 8-bit weight would saturate; |w| <= 128 times x with w's sign does not: 128 * 127 * 2
// < 2^15.
HEADWAY_INLINE I ByteStart(int32_t) { return IntZero(); }
HEADWAY_INLINE __m256i DotBytesHalf(__m256i acc, __m256i w, __m256i x) {
  w = _mm256_xor_si256(w, _mm256_set1_epi8(static_cast<char>(0x80)));
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  acc = _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  asm("" : "+x"(acc));  // as in DotNibblesHalf
  return acc;
}
HEADWAY_INLINE I DotBytes(I acc, B w, B x) {
  return {DotBytesHalf(acc.a, w.a, x.a), DotBytesHalf(acc.b, w.b, x.b)};
}
HEADWAY_INLINE V ByteSum(I acc) { return ToFloat(acc); }

HEADWAY_INLINE void Prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

}  // namespace headway::kernels::cpu::HEADWAY_ISA

#endif  // HEADWAY_KERNELS_CPU_VEC_AVX2_H_
