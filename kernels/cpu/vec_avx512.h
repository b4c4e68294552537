#ifndef HEADWAY_KERNELS_CPU_VEC_AVX512_H_
#define HEADWAY_KERNELS_CPU_VEC_AVX512_H_

#include <immintrin.h>

#include <cstdint>

#include "kernels/math_constants.h"

// Sixteen lanes for AVX-512 (F, BW, DQ, VL), with VNNI where the object is compiled for it.
//
// The vec_*.h files define the same operations. Every operation is either exact or one IEEE
// rounding, so that a kernel written on them has the same bits on each processor. Everything has
// internal linkage or lies in the table's own namespace: no object compiled with other flags shares
// a function with these.
namespace headway::kernels::cpu::HEADWAY_ISA {

#define HEADWAY_INLINE static inline __attribute__((always_inline))
#define HEADWAY_INLINE_LAMBDA __attribute__((always_inline))

// Rows of a quantised linear in registers: 12 float and 12 int accumulators of 32 registers.
constexpr int kDotRows = 6;
// Rows and (16-lane) columns of a float product in registers.
constexpr int kFloatRows = 6;
constexpr int kFloatColumns = 4;
// Rows of a softmax in step.
constexpr int kSoftmaxRows = 3;
// From so many rows on, unpacking a tile of nibbles beforehand pays.
constexpr int kFlatRows = 32;

using V = __m512;   // 16 float
using I = __m512i;  // 16 int32
using B = __m512i;  // 16 groups of 4 bytes

HEADWAY_INLINE V Zero() { return _mm512_setzero_ps(); }
HEADWAY_INLINE V Set(float x) { return _mm512_set1_ps(x); }
HEADWAY_INLINE V Load(const float* p) { return _mm512_loadu_ps(p); }
HEADWAY_INLINE void Store(float* p, V v) { _mm512_storeu_ps(p, v); }
HEADWAY_INLINE V Add(V a, V b) { return _mm512_add_ps(a, b); }
HEADWAY_INLINE V Sub(V a, V b) { return _mm512_sub_ps(a, b); }
HEADWAY_INLINE V Mul(V a, V b) { return _mm512_mul_ps(a, b); }
HEADWAY_INLINE V Div(V a, V b) { return _mm512_div_ps(a, b); }
HEADWAY_INLINE V Fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
HEADWAY_INLINE V Max(V a, V b) { return _mm512_max_ps(a, b); }  // a > b ? a : b
HEADWAY_INLINE V Min(V a, V b) { return _mm512_min_ps(a, b); }  // a < b ? a : b
HEADWAY_INLINE V SwapPairs(V a) { return _mm512_permute_ps(a, 0xB1); }
// x < limit ? 0 : value
HEADWAY_INLINE V ZeroWhereLess(V value, V x, V limit) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), value);
}
// p * 2^n, where the low bits of t hold n
HEADWAY_INLINE V AddExponent(V p, V t) {
  return _mm512_castsi512_ps(
      _mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}
// Lanes below n from value.
HEADWAY_INLINE V FirstLanes(V value, int n, V otherwise) {
  return _mm512_mask_mov_ps(otherwise, __mmask16((1u << n) - 1), value);
}
// The tree of 16 lanes.
HEADWAY_INLINE float SumLanes(V v) {
  const __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
HEADWAY_INLINE float MaxLanes(V v) { return _mm512_reduce_max_ps(v); }
// The largest magnitude of 32 values; a NaN counts as the largest.
HEADWAY_INLINE float LargestMagnitude(V x, V y) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m512i larger = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(x), magnitude),
                                          _mm512_and_si512(_mm512_castps_si512(y), magnitude));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(larger))));
}

// The three number formats of float weights and of the cache. `bits` holds 16-bit floats.
struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
HEADWAY_INLINE V Load(const F16* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
HEADWAY_INLINE V Load(const Bf16* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
// Clamps to finite values (a NaN gives -limit), rounds to nearest even.
HEADWAY_INLINE V ClampFinite(V v, float limit) { return Min(Max(v, Set(-limit)), Set(limit)); }
HEADWAY_INLINE void StoreFinite(float* p, V v) { Store(p, ClampFinite(v, kLargestF32)); }
HEADWAY_INLINE void StoreFinite(F16* p, V v) {
  _mm256_storeu_si256(
      reinterpret_cast<__m256i*>(p),
      _mm512_cvtps_ph(ClampFinite(v, kLargestF16), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
HEADWAY_INLINE void StoreFinite(Bf16* p, V v) {
  const __m512i u = _mm512_castps_si512(ClampFinite(v, kLargestBf16));
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

HEADWAY_INLINE I IntZero() { return _mm512_setzero_si512(); }
HEADWAY_INLINE V ToFloat(I v) { return _mm512_cvtepi32_ps(v); }
// Rounds to nearest even, stores 32 int8, returns the integers' sum. Magnitudes up to 127.5.
HEADWAY_INLINE int32_t StoreInt8(int8_t* p, V x, V y) {
  const __m512i i = _mm512_cvtps_epi32(x);
  const __m512i j = _mm512_cvtps_epi32(y);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(i));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 16), _mm512_cvtepi32_epi8(j));
  return _mm512_reduce_add_epi32(_mm512_add_epi32(i, j));
}

HEADWAY_INLINE B LoadBytes(const uint8_t* p) { return _mm512_load_si512(p); }
HEADWAY_INLINE void StoreBytes(uint8_t* p, B b) { _mm512_store_si512(p, b); }
HEADWAY_INLINE B LowNibbles(B b) { return _mm512_and_si512(b, _mm512_set1_epi8(15)); }
HEADWAY_INLINE B HighNibbles(B b) {
  return _mm512_and_si512(_mm512_srli_epi16(b, 4), _mm512_set1_epi8(15));
}
// Four activations in every group.
HEADWAY_INLINE B Four(const int8_t* x) {
  int32_t v;
  __builtin_memcpy(&v, x, 4);
  return _mm512_set1_epi32(v);
}

// A block's dot product of nibbles: start (0 when nibbles stand for 0..15, the sum of the
// activations when they stand for -8..7), eight DotNibbles, NibbleSum.
#ifdef HEADWAY_VNNI
HEADWAY_INLINE I NibbleStart() { return _mm512_setzero_si512(); }
HEADWAY_INLINE I NibbleStartMinus8(int32_t sum) { return _mm512_set1_epi32(-8 * sum); }
HEADWAY_INLINE I DotNibbles(I acc, B w, B x) { return _mm512_dpbusd_epi32(acc, w, x); }
HEADWAY_INLINE V NibbleSum(I acc) { return ToFloat(acc); }
// The same for 8-bit weights, which are stored plus 128.
HEADWAY_INLINE I ByteStart(int32_t sum) { return _mm512_set1_epi32(-128 * sum); }
HEADWAY_INLINE I DotBytes(I acc, B w, B x) { return _mm512_dpbusd_epi32(acc, w, x); }
#else
// In 16 bits until the block's end, as in vec_avx2.h.
HEADWAY_INLINE I NibbleStart() { return _mm512_setzero_si512(); }
HEADWAY_INLINE I NibbleStartMinus8(int32_t sum) {
  return _mm512_set1_epi16(static_cast<int16_t>(-4 * sum));
}
HEADWAY_INLINE I DotNibbles(I acc, B w, B x) {
  return _mm512_add_epi16(acc, _mm512_maddubs_epi16(w, x));
}
HEADWAY_INLINE V NibbleSum(I acc) { return ToFloat(_mm512_madd_epi16(acc, _mm512_set1_epi16(1))); }
// |w| <= 128 times x with w's sign does not saturate.
HEADWAY_INLINE I ByteStart(int32_t) { return _mm512_setzero_si512(); }
HEADWAY_INLINE I DotBytes(I acc, B w, B x) {
  w = _mm512_xor_si512(w, _mm512_set1_epi8(static_cast<char>(0x80)));
  const B signed_x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
  const I pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(w), signed_x);
  return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
#endif
HEADWAY_INLINE V ByteSum(I acc) { return ToFloat(acc); }

HEADWAY_INLINE void Prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

}  // namespace headway::kernels::cpu::HEADWAY_ISA

#endif  // HEADWAY_KERNELS_CPU_VEC_AVX512_H_
