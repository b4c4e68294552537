#ifndef HEADWAY_KERNELS_CONFORMANCE_EMULATED_AVX512_H_
#define HEADWAY_KERNELS_CONFORMANCE_EMULATED_AVX512_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

// The AVX-512 intrinsics that kernels/cpu/vec_avx512.h uses, as loops over lanes after the
// instruction set's published definitions, so that the AVX-512 form of the kernels is tested on
// processors without it. Needs AVX2, FMA and F16C. Include before vec_avx512.h.
// Not inlined: the kernels repeat each a hundred times.
#define HEADWAY_EMULATED __attribute__((noinline)) inline

namespace headway::kernels::emulated {

struct M512 {
  float lane[16];
};
struct M512i {
  uint8_t byte[64];
};

template <class T>
struct As {
  T lane[64 / sizeof(T)];
};
template <class T>
inline As<T> Lanes(M512i v) {
  As<T> r;
  std::memcpy(&r, &v, 64);
  return r;
}
template <class T>
inline M512i Bytes(As<T> v) {
  M512i r;
  std::memcpy(&r, &v, 64);
  return r;
}
template <class T, class F>
inline M512i Each(F f) {
  As<T> r;
  for (size_t i = 0; i < 64 / sizeof(T); ++i) r.lane[i] = static_cast<T>(f(i));
  return Bytes(r);
}
template <class F>
inline M512 EachFloat(F f) {
  M512 r;
  for (int i = 0; i < 16; ++i) r.lane[i] = f(i);
  return r;
}
template <class To, class From>
inline To Copy(const void* p) {
  static_assert(sizeof(To) == sizeof(From));
  To r;
  std::memcpy(&r, p, sizeof(r));
  return r;
}

HEADWAY_EMULATED M512 setzero_ps() {
  return EachFloat([](int) { return 0.0f; });
}
HEADWAY_EMULATED M512 set1_ps(float x) {
  return EachFloat([&](int) { return x; });
}
HEADWAY_EMULATED M512 loadu_ps(const float* p) {
  return EachFloat([&](int i) { return p[i]; });
}
HEADWAY_EMULATED void storeu_ps(float* p, M512 v) { std::memcpy(p, v.lane, 64); }
HEADWAY_EMULATED M512 add_ps(M512 a, M512 b) {
  return EachFloat([&](int i) { return a.lane[i] + b.lane[i]; });
}
HEADWAY_EMULATED M512 sub_ps(M512 a, M512 b) {
  return EachFloat([&](int i) { return a.lane[i] - b.lane[i]; });
}
HEADWAY_EMULATED M512 mul_ps(M512 a, M512 b) {
  return EachFloat([&](int i) { return a.lane[i] * b.lane[i]; });
}
HEADWAY_EMULATED M512 div_ps(M512 a, M512 b) {
  return EachFloat([&](int i) { return a.lane[i] / b.lane[i]; });
}
HEADWAY_EMULATED M512 fmadd_ps(M512 a, M512 b, M512 c) {
  return EachFloat([&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
HEADWAY_EMULATED M512 max_ps(M512 a, M512 b) {
  return EachFloat([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
HEADWAY_EMULATED M512 min_ps(M512 a, M512 b) {
  return EachFloat([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
// Two bits a destination, within runs of four lanes.
HEADWAY_EMULATED M512 permute_ps(M512 a, int control) {
  return EachFloat([&](int i) { return a.lane[i / 4 * 4 + (control >> (i % 4 * 2) & 3)]; });
}
// Only the comparison that the kernels use: not less than, or unordered.
HEADWAY_EMULATED uint16_t cmp_ps_mask(M512 a, M512 b, int comparison) {
  if (comparison != _CMP_NLT_UQ) __builtin_trap();
  uint16_t mask = 0;
  for (int i = 0; i < 16; ++i) mask |= static_cast<uint16_t>(!(a.lane[i] < b.lane[i])) << i;
  return mask;
}
HEADWAY_EMULATED M512 maskz_mov_ps(uint16_t mask, M512 a) {
  return EachFloat([&](int i) { return mask >> i & 1 ? a.lane[i] : 0.0f; });
}
HEADWAY_EMULATED M512 mask_mov_ps(M512 otherwise, uint16_t mask, M512 a) {
  return EachFloat([&](int i) { return mask >> i & 1 ? a.lane[i] : otherwise.lane[i]; });
}
HEADWAY_EMULATED M512i castps_si512(M512 v) {
  M512i r;
  std::memcpy(&r, &v, 64);
  return r;
}
HEADWAY_EMULATED M512 castsi512_ps(M512i v) {
  M512 r;
  std::memcpy(&r, &v, 64);
  return r;
}
HEADWAY_EMULATED __m256 castps512_ps256(M512 v) { return _mm256_loadu_ps(v.lane); }
HEADWAY_EMULATED __m256 extractf32x8_ps(M512 v, int half) {
  return _mm256_loadu_ps(v.lane + 8 * half);
}
HEADWAY_EMULATED float reduce_max_ps(M512 v) {
  float m = v.lane[0];
  for (float x : v.lane) m = x > m ? x : m;
  return m;
}

HEADWAY_EMULATED M512i setzero_si512() { return {}; }
HEADWAY_EMULATED M512i set1_epi32(int32_t x) {
  return Each<int32_t>([&](size_t) { return x; });
}
HEADWAY_EMULATED M512i set1_epi8(int8_t x) {
  return Each<int8_t>([&](size_t) { return x; });
}
HEADWAY_EMULATED M512i load_si512(const void* p) {
  if (reinterpret_cast<uintptr_t>(p) % 64 != 0) __builtin_trap();  // as the processor would
  return Copy<M512i, M512i>(p);
}
HEADWAY_EMULATED void store_si512(void* p, M512i v) {
  if (reinterpret_cast<uintptr_t>(p) % 64 != 0) __builtin_trap();
  std::memcpy(p, &v, 64);
}
HEADWAY_EMULATED M512i and_si512(M512i a, M512i b) {
  return Each<uint8_t>([&](size_t i) { return a.byte[i] & b.byte[i]; });
}
HEADWAY_EMULATED M512i add_epi32(M512i a, M512i b) {
  const auto x = Lanes<uint32_t>(a), y = Lanes<uint32_t>(b);
  return Each<uint32_t>([&](size_t i) { return x.lane[i] + y.lane[i]; });
}
HEADWAY_EMULATED M512i max_epi32(M512i a, M512i b) {
  const auto x = Lanes<int32_t>(a), y = Lanes<int32_t>(b);
  return Each<int32_t>([&](size_t i) { return x.lane[i] > y.lane[i] ? x.lane[i] : y.lane[i]; });
}
HEADWAY_EMULATED M512i slli_epi32(M512i a, int count) {
  const auto x = Lanes<uint32_t>(a);
  return Each<uint32_t>([&](size_t i) { return x.lane[i] << count; });
}
HEADWAY_EMULATED M512i srli_epi32(M512i a, int count) {
  const auto x = Lanes<uint32_t>(a);
  return Each<uint32_t>([&](size_t i) { return x.lane[i] >> count; });
}
HEADWAY_EMULATED M512i srli_epi16(M512i a, int count) {
  const auto x = Lanes<uint16_t>(a);
  return Each<uint16_t>([&](size_t i) { return x.lane[i] >> count; });
}
HEADWAY_EMULATED int32_t reduce_max_epi32(M512i v) {
  int32_t m = INT32_MIN;
  for (int32_t x : Lanes<int32_t>(v).lane) m = x > m ? x : m;
  return m;
}
HEADWAY_EMULATED int32_t reduce_add_epi32(M512i v) {
  uint32_t sum = 0;
  for (uint32_t x : Lanes<uint32_t>(v).lane) sum += x;
  return static_cast<int32_t>(sum);
}
HEADWAY_EMULATED M512 cvtepi32_ps(M512i v) {
  const auto x = Lanes<int32_t>(v);
  return EachFloat([&](int i) { return static_cast<float>(x.lane[i]); });
}
// Nearest even; what does not fit gives the lowest integer.
HEADWAY_EMULATED M512i cvtps_epi32(M512 v) {
  As<int32_t> r;
  for (int i = 0; i < 16; ++i) r.lane[i] = _mm_cvtss_si32(_mm_set_ss(v.lane[i]));
  return Bytes(r);
}
HEADWAY_EMULATED __m128i cvtepi32_epi8(M512i v) {
  int8_t r[16];
  for (int i = 0; i < 16; ++i) r[i] = static_cast<int8_t>(Lanes<int32_t>(v).lane[i]);
  return Copy<__m128i, int8_t[16]>(r);
}
HEADWAY_EMULATED __m256i cvtepi32_epi16(M512i v) {
  int16_t r[16];
  for (int i = 0; i < 16; ++i) r[i] = static_cast<int16_t>(Lanes<int32_t>(v).lane[i]);
  return Copy<__m256i, int16_t[16]>(r);
}
HEADWAY_EMULATED M512i cvtepu16_epi32(__m256i v) {
  uint16_t x[16];
  std::memcpy(x, &v, 32);
  return Each<uint32_t>([&](size_t i) { return x[i]; });
}
HEADWAY_EMULATED M512 cvtph_ps(__m256i v) {
  M512 r;
  _mm256_storeu_ps(r.lane, _mm256_cvtph_ps(_mm256_castsi256_si128(v)));
  _mm256_storeu_ps(r.lane + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)));
  return r;
}
HEADWAY_EMULATED __m256i cvtps_ph(M512 v, int rounding) {
  if (rounding != (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)) __builtin_trap();
  return _mm256_set_m128i(_mm256_cvtps_ph(_mm256_loadu_ps(v.lane + 8), _MM_FROUND_TO_NEAREST_INT),
                          _mm256_cvtps_ph(_mm256_loadu_ps(v.lane), _MM_FROUND_TO_NEAREST_INT));
}
// Each lane adds four products of an unsigned and a signed byte.
HEADWAY_EMULATED M512i dpbusd_epi32(M512i acc, M512i a, M512i b) {
  auto r = Lanes<int32_t>(acc);
  for (int i = 0; i < 64; ++i) r.lane[i / 4] += a.byte[i] * static_cast<int8_t>(b.byte[i]);
  return Bytes(r);
}

HEADWAY_EMULATED M512i set1_epi16(int16_t x) {
  return Each<int16_t>([&](size_t) { return x; });
}
HEADWAY_EMULATED M512i add_epi16(M512i a, M512i b) {
  const auto x = Lanes<uint16_t>(a), y = Lanes<uint16_t>(b);
  return Each<uint16_t>([&](size_t i) { return x.lane[i] + y.lane[i]; });
}
HEADWAY_EMULATED M512i xor_si512(M512i a, M512i b) {
  return Each<uint8_t>([&](size_t i) { return a.byte[i] ^ b.byte[i]; });
}
HEADWAY_EMULATED M512i abs_epi8(M512i a) {
  return Each<uint8_t>([&](size_t i) {
    const int x = static_cast<int8_t>(a.byte[i]);
    return x < 0 ? -x : x;
  });
}
HEADWAY_EMULATED uint64_t movepi8_mask(M512i a) {
  uint64_t mask = 0;
  for (int i = 0; i < 64; ++i) mask |= static_cast<uint64_t>(a.byte[i] >> 7) << i;
  return mask;
}
HEADWAY_EMULATED M512i mask_sub_epi8(M512i otherwise, uint64_t mask, M512i a, M512i b) {
  return Each<uint8_t>(
      [&](size_t i) { return mask >> i & 1 ? a.byte[i] - b.byte[i] : otherwise.byte[i]; });
}
// Two products of an unsigned and a signed byte, added with saturation.
HEADWAY_EMULATED M512i maddubs_epi16(M512i a, M512i b) {
  return Each<int16_t>([&](size_t i) {
    const int sum = a.byte[2 * i] * static_cast<int8_t>(b.byte[2 * i]) +
                    a.byte[2 * i + 1] * static_cast<int8_t>(b.byte[2 * i + 1]);
    return sum > INT16_MAX ? INT16_MAX : sum < INT16_MIN ? INT16_MIN : sum;
  });
}
HEADWAY_EMULATED M512i madd_epi16(M512i a, M512i b) {
  const auto x = Lanes<int16_t>(a), y = Lanes<int16_t>(b);
  return Each<int32_t>([&](size_t i) {
    return x.lane[2 * i] * y.lane[2 * i] + x.lane[2 * i + 1] * y.lane[2 * i + 1];
  });
}

}  // namespace headway::kernels::emulated

#define __m512 ::headway::kernels::emulated::M512
#define __m512i ::headway::kernels::emulated::M512i
#define _mm512_setzero_ps ::headway::kernels::emulated::setzero_ps
#define _mm512_set1_ps ::headway::kernels::emulated::set1_ps
#define _mm512_loadu_ps ::headway::kernels::emulated::loadu_ps
#define _mm512_storeu_ps ::headway::kernels::emulated::storeu_ps
#define _mm512_add_ps ::headway::kernels::emulated::add_ps
#define _mm512_sub_ps ::headway::kernels::emulated::sub_ps
#define _mm512_mul_ps ::headway::kernels::emulated::mul_ps
#define _mm512_div_ps ::headway::kernels::emulated::div_ps
#define _mm512_fmadd_ps ::headway::kernels::emulated::fmadd_ps
#define _mm512_max_ps ::headway::kernels::emulated::max_ps
#define _mm512_min_ps ::headway::kernels::emulated::min_ps
#undef _mm512_permute_ps
#define _mm512_permute_ps ::headway::kernels::emulated::permute_ps
#undef _mm512_cmp_ps_mask
#define _mm512_cmp_ps_mask ::headway::kernels::emulated::cmp_ps_mask
#define _mm512_maskz_mov_ps ::headway::kernels::emulated::maskz_mov_ps
#define _mm512_mask_mov_ps ::headway::kernels::emulated::mask_mov_ps
#define _mm512_castps_si512 ::headway::kernels::emulated::castps_si512
#define _mm512_castsi512_ps ::headway::kernels::emulated::castsi512_ps
#define _mm512_castps512_ps256 ::headway::kernels::emulated::castps512_ps256
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps ::headway::kernels::emulated::extractf32x8_ps
#define _mm512_reduce_max_ps ::headway::kernels::emulated::reduce_max_ps
#define _mm512_setzero_si512 ::headway::kernels::emulated::setzero_si512
#define _mm512_set1_epi32 ::headway::kernels::emulated::set1_epi32
#define _mm512_set1_epi8 ::headway::kernels::emulated::set1_epi8
#define _mm512_load_si512 ::headway::kernels::emulated::load_si512
#define _mm512_store_si512 ::headway::kernels::emulated::store_si512
#define _mm512_and_si512 ::headway::kernels::emulated::and_si512
#define _mm512_add_epi32 ::headway::kernels::emulated::add_epi32
#define _mm512_max_epi32 ::headway::kernels::emulated::max_epi32
#undef _mm512_slli_epi32
#define _mm512_slli_epi32 ::headway::kernels::emulated::slli_epi32
#undef _mm512_srli_epi32
#define _mm512_srli_epi32 ::headway::kernels::emulated::srli_epi32
#undef _mm512_srli_epi16
#define _mm512_srli_epi16 ::headway::kernels::emulated::srli_epi16
#define _mm512_reduce_max_epi32 ::headway::kernels::emulated::reduce_max_epi32
#define _mm512_reduce_add_epi32 ::headway::kernels::emulated::reduce_add_epi32
#define _mm512_cvtepi32_ps ::headway::kernels::emulated::cvtepi32_ps
#define _mm512_cvtps_epi32 ::headway::kernels::emulated::cvtps_epi32
#define _mm512_cvtepi32_epi8 ::headway::kernels::emulated::cvtepi32_epi8
#define _mm512_cvtepi32_epi16 ::headway::kernels::emulated::cvtepi32_epi16
#define _mm512_cvtepu16_epi32 ::headway::kernels::emulated::cvtepu16_epi32
#define _mm512_cvtph_ps ::headway::kernels::emulated::cvtph_ps
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph ::headway::kernels::emulated::cvtps_ph
#define _mm512_dpbusd_epi32 ::headway::kernels::emulated::dpbusd_epi32
#define _mm512_set1_epi16 ::headway::kernels::emulated::set1_epi16
#define _mm512_add_epi16 ::headway::kernels::emulated::add_epi16
#define _mm512_xor_si512 ::headway::kernels::emulated::xor_si512
#define _mm512_abs_epi8 ::headway::kernels::emulated::abs_epi8
#define _mm512_movepi8_mask ::headway::kernels::emulated::movepi8_mask
#define _mm512_mask_sub_epi8 ::headway::kernels::emulated::mask_sub_epi8
#define _mm512_maddubs_epi16 ::headway::kernels::emulated::maddubs_epi16
#define _mm512_madd_epi16 ::headway::kernels::emulated::madd_epi16

#endif  // HEADWAY_KERNELS_CONFORMANCE_EMULATED_AVX512_H_
