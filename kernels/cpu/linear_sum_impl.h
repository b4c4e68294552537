#ifndef HEADWAY_KERNELS_CPU_LINEAR_SUM_IMPL_H_
#define HEADWAY_KERNELS_CPU_LINEAR_SUM_IMPL_H_

#include "kernels/cpu/row_impl.h"

// The sums of one tile of weights for all rows, in the order that linear.h states: lanes are
// outputs, so one row and many rows run the same operations per element.
namespace headway::kernels::cpu::HEADWAY_ISA {

constexpr int kLevels = 5;  // of the tree over at most 16 groups
// A tile of more blocks is not unpacked beforehand: it would not stay in the second-level cache.
constexpr int kFlatBlocks = 160;

// M rows times 32 outputs.
template <int M>
struct Sums {
  V v[M][2];
};

template <int M>
HEADWAY_INLINE void Clear(Sums<M>& s) {
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) s.v[r][0] = s.v[r][1] = Zero();
}

// s = left + s
template <int M>
HEADWAY_INLINE void AddLeft(const Sums<M>& left, Sums<M>& s) {
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
    s.v[r][0] = Add(left.v[r][0], s.v[r][0]);
    s.v[r][1] = Add(left.v[r][1], s.v[r][1]);
  }
}

// Groups 0 .. groups-1 by the balanced tree, a binary counter over partial sums: level l holds the
// sum of 2^l neighbours. What is left over at the end meets from the smallest to the largest.
// group(g, sums) adds group g to zeros.
template <int M, class Group>
HEADWAY_INLINE Sums<M> TreeSum(int groups, Group group) {
  Sums<M> part;
  Sums<M> level[kLevels];
  for (int g = 0; g < groups; ++g) {
    Clear(part);
    group(g, part);
    int l = 0;
    for (; g >> l & 1; ++l) AddLeft(level[l], part);
    level[l] = part;
  }
  int l = 0;
  while (!(groups >> l & 1)) ++l;
  part = level[l];
  for (++l; l < kLevels; ++l) {
    if (groups >> l & 1) AddLeft(level[l], part);
  }
  return part;
}

// ---- Quantised weights, q8 activations.

// A packed format: where a block's parts lie, as stored and unpacked to bytes ("flat": float
// scales and minima, then 8 x 2 vectors of 64 bytes).
struct Q41 {
  static constexpr bool kNibbles = true, kMinimum = true;
  static constexpr int kBlock = kQ41BlockBytes, kAt = kQ41NibblesAt;
  static constexpr int kFlatAt = 256, kFlatBlock = kFlatAt + 1024;
};
struct Q40 {
  static constexpr bool kNibbles = true, kMinimum = false;
  static constexpr int kBlock = kQ40BlockBytes, kAt = kQ40NibblesAt;
  static constexpr int kFlatAt = 128, kFlatBlock = kFlatAt + 1024;
};
struct Q80 {
  static constexpr bool kNibbles = false, kMinimum = false;
  static constexpr int kBlock = kQ80BlockBytes, kAt = kQ80BytesAt;
};

// Unpacks nibbles and scales of a tile; that is exact, so the rows' bits do not change.
template <class Format>
static void Flatten(const uint8_t* tile, int blocks, uint8_t* flat) {
  for (int b = 0; b < blocks; ++b, tile += Format::kBlock, flat += Format::kFlatBlock) {
    for (int i = 0; i < Format::kAt / 32; ++i) {
      Store(reinterpret_cast<float*>(flat) + 16 * i,
            Load(reinterpret_cast<const F16*>(tile) + 16 * i));
    }
    for (int h = 0; h < 2; ++h) {
      for (int v = 0; v < 4; ++v) {
        const B packed = LoadBytes(tile + Format::kAt + 256 * h + 64 * v);
        StoreBytes(flat + Format::kFlatAt + 64 * (2 * v + h), LowNibbles(packed));
        StoreBytes(flat + Format::kFlatAt + 64 * (2 * (v + 4) + h), HighNibbles(packed));
      }
    }
  }
}

// acc = fma(float(dot) * x.scale, w.scale, acc), and the minimum's term.
template <class Format, int M, class T>
HEADWAY_INLINE void AddBlock(Sums<M>& acc, I (&dot)[M][2], const T* scales, const Q8Block* x,
                             int64_t stride) {
  const V d0 = Load(scales), d1 = Load(scales + 16);
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
    const V scale = Set(x[r * stride].scale);
    V* sum = acc.v[r];
    if constexpr (Format::kNibbles) {
      sum[0] = Fma(Mul(NibbleSum(dot[r][0]), scale), d0, sum[0]);
      sum[1] = Fma(Mul(NibbleSum(dot[r][1]), scale), d1, sum[1]);
    } else {
      sum[0] = Fma(Mul(ByteSum(dot[r][0]), scale), d0, sum[0]);
      sum[1] = Fma(Mul(ByteSum(dot[r][1]), scale), d1, sum[1]);
    }
    if constexpr (Format::kMinimum) {
      const V scaled_sum = Set(x[r * stride].scaled_sum);
      sum[0] = Fma(Load(scales + 32), scaled_sum, sum[0]);
      sum[1] = Fma(Load(scales + 48), scaled_sum, sum[1]);
    }
  }
}

template <class Format, int M>
HEADWAY_INLINE void StartDots(I (&dot)[M][2], const Q8Block* x, int64_t stride) {
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
    if constexpr (!Format::kNibbles) {
      dot[r][0] = dot[r][1] = ByteStart(x[r * stride].sum);
    } else if constexpr (!Format::kMinimum) {
      dot[r][0] = dot[r][1] = NibbleStartMinus8(x[r * stride].sum);
    } else {
      dot[r][0] = dot[r][1] = NibbleStart();
    }
  }
}

template <class Format, int M, bool kFlat>
HEADWAY_INLINE void DotBlock(Sums<M>& acc, const uint8_t* w, const Q8Block* x, int64_t stride) {
  I dot[M][2];
  StartDots<Format, M>(dot, x, stride);
  if constexpr (kFlat || !Format::kNibbles) {
    const uint8_t* bytes;
    if constexpr (kFlat) {
      bytes = w + Format::kFlatAt;
    } else {
      bytes = w + Format::kAt;
    }
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) {
      const B w0 = LoadBytes(bytes + 128 * v), w1 = LoadBytes(bytes + 128 * v + 64);
#pragma GCC unroll 8
      for (int r = 0; r < M; ++r) {
        const B a = Four(x[r * stride].q + 4 * v);
        if constexpr (Format::kNibbles) {
          dot[r][0] = DotNibbles(dot[r][0], w0, a);
          dot[r][1] = DotNibbles(dot[r][1], w1, a);
        } else {
          dot[r][0] = DotBytes(dot[r][0], w0, a);
          dot[r][1] = DotBytes(dot[r][1], w1, a);
        }
      }
    }
  } else {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const B p0 = LoadBytes(w + Format::kAt + 64 * v);
      const B p1 = LoadBytes(w + Format::kAt + 256 + 64 * v);
      const B l0 = LowNibbles(p0), h0 = HighNibbles(p0);
      const B l1 = LowNibbles(p1), h1 = HighNibbles(p1);
#pragma GCC unroll 8
      for (int r = 0; r < M; ++r) {
        const B a = Four(x[r * stride].q + 4 * v), b = Four(x[r * stride].q + 16 + 4 * v);
        dot[r][0] = DotNibbles(DotNibbles(dot[r][0], l0, a), h0, b);
        dot[r][1] = DotNibbles(DotNibbles(dot[r][1], l1, a), h1, b);
      }
    }
  }
  if constexpr (kFlat) {
    AddBlock<Format, M>(acc, dot, reinterpret_cast<const float*>(w), x, stride);
  } else {
    AddBlock<Format, M>(acc, dot, reinterpret_cast<const F16*>(w), x, stride);
  }
}

// Where the results of rows go: [rows][32].
struct Target {
  float* out;
  int64_t stride;
  const float* bias;  // or null
};

template <int M>
HEADWAY_INLINE void StoreSums(const Sums<M>& s, const Target& to, int row) {
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
    float* out = to.out + (row + r) * to.stride;
    const V* v = s.v[r];
    if (to.bias != nullptr) {
      Store(out, Add(v[0], Load(to.bias)));
      Store(out + 16, Add(v[1], Load(to.bias + 16)));
    } else {
      Store(out, v[0]);
      Store(out + 16, v[1]);
    }
  }
}

// Rows [row, row + M). `w` holds inputs from bounds[0] on; `ahead` bytes further are prefetched.
template <class Format, int M, bool kFlat>
static void DotRows(const TileInput& in, const uint8_t* w, int row, int64_t ahead,
                    const Target& to) {
  const Q8Block* x = static_cast<const Q8Block*>(in.x) + row * in.stride + in.bounds[0] / 32;
  const Sums<M> sums = TreeSum<M>(in.groups, [&](int g, Sums<M>& part) HEADWAY_INLINE_LAMBDA {
    for (int b = (in.bounds[g + 1] - in.bounds[g]) / 32; b > 0; --b, ++x) {
      if constexpr (!kFlat) {
#pragma GCC unroll 17
        for (int i = 0; i < Format::kBlock; i += 64) Prefetch(w + ahead + i);
      }
      DotBlock<Format, M, kFlat>(part, w, x, in.stride);
      if constexpr (kFlat) {
        w += Format::kFlatBlock;
      } else {
        w += Format::kBlock;
      }
    }
  });
  StoreSums<M>(sums, to, row);
}

template <class Format, bool kFlat, int M>
static void DotRest(const TileInput& in, const uint8_t* w, int row, int64_t ahead,
                    const Target& to) {
  if constexpr (M > 0) {
    if (in.rows - row == M) return DotRows<Format, M, kFlat>(in, w, row, ahead, to);
    DotRest<Format, kFlat, M - 1>(in, w, row, ahead, to);
  }
}

template <class Format, bool kFlat>
static void DotAllRows(const TileInput& in, const uint8_t* w, const Target& to) {
  // The first rows wait for memory, so they fetch a few blocks ahead; the later ones fetch the
  // following tile, which lies behind this one.
  const int64_t near = Format::kNibbles ? 4 * Format::kBlock : 2 * Format::kBlock;
  const int64_t next_tile =
      static_cast<int64_t>(in.bounds[in.groups] - in.bounds[0]) / 32 * Format::kBlock;
  int row = 0;
  for (; row + kDotRows <= in.rows; row += kDotRows) {
    DotRows<Format, kDotRows, kFlat>(in, w, row, row == 0 ? near : next_tile, to);
  }
  DotRest<Format, kFlat, kDotRows - 1>(in, w, row, row == 0 ? near : next_tile, to);
}

template <class Format>
static void SumQuantised(const TileInput& in, const Target& to, const Scratch& s) {
  const int first = in.bounds[0] / 32;
  const int blocks = in.bounds[in.groups] / 32 - first;
  const uint8_t* w = in.tile + static_cast<int64_t>(first) * Format::kBlock;
  if constexpr (Format::kNibbles) {
    if (in.rows >= kFlatRows && blocks <= kFlatBlocks) {
      Flatten<Format>(w, blocks, s.weights);
      return DotAllRows<Format, true>(in, s.weights, to);
    }
  }
  DotAllRows<Format, false>(in, w, to);
}

// ---- Float activations: any weights.

// Rows [row, row + M). `w`: [inputs from bounds[0] on][32].
template <int M, class T>
static void FloatRows(const TileInput& in, const T* w, int row, const Target& to) {
  const float* x = static_cast<const float*>(in.x) + row * in.stride + in.bounds[0];
  const Sums<M> sums = TreeSum<M>(in.groups, [&](int g, Sums<M>& part) HEADWAY_INLINE_LAMBDA {
    for (int k = in.bounds[g + 1] - in.bounds[g]; k > 0; --k, ++x, w += kTileOutputs) {
      const V w0 = Load(w), w1 = Load(w + 16);
#pragma GCC unroll 8
      for (int r = 0; r < M; ++r) {
        const V a = Set(x[r * in.stride]);
        part.v[r][0] = Fma(w0, a, part.v[r][0]);
        part.v[r][1] = Fma(w1, a, part.v[r][1]);
      }
    }
  });
  StoreSums<M>(sums, to, row);
}

template <class T, int M>
static void FloatRest(const TileInput& in, const T* w, int row, const Target& to) {
  if constexpr (M > 0) {
    if (in.rows - row == M) return FloatRows<M>(in, w, row, to);
    FloatRest<T, M - 1>(in, w, row, to);
  }
}

template <class T>
static void FloatAllRows(const TileInput& in, const T* w, const Target& to) {
  int row = 0;
  for (; row + kFloatRows <= in.rows; row += kFloatRows) FloatRows<kFloatRows>(in, w, row, to);
  FloatRest<T, kFloatRows - 1>(in, w, row, to);
}

template <class T>
static void SumFloat(const TileInput& in, const Target& to) {
  FloatAllRows(
      in, reinterpret_cast<const T*>(in.tile) + static_cast<int64_t>(in.bounds[0]) * kTileOutputs,
      to);
}

// Decodes quantised blocks of a tile to [inputs][32] floats: scale * integer, exact, and the
// minimum's addition, rounded.
template <class Format>
static void DecodeTile(const uint8_t* tile, int blocks, float* out) {
  for (int b = 0; b < blocks; ++b, tile += Format::kBlock, out += 32 * kTileOutputs) {
    for (int h = 0; h < 2; ++h) {
      const F16* scales = reinterpret_cast<const F16*>(tile) + 16 * h;
      const V scale = Load(scales);
      V minimum = Zero();
      if constexpr (Format::kMinimum) minimum = Load(scales + 32);
      for (int k = 0; k < 32; ++k) {
        float integers[16];
        for (int r = 0; r < 16; ++r) {
          int q;
          if constexpr (Format::kNibbles) {
            const uint8_t pair = tile[Format::kAt + 256 * h + 64 * (k % 16 / 4) + 4 * r + k % 4];
            q = k < 16 ? pair & 15 : pair >> 4;
            if constexpr (!Format::kMinimum) q -= 8;
          } else {
            q = tile[Format::kAt + 128 * (k / 4) + 64 * h + 4 * r + k % 4] - 128;
          }
          integers[r] = static_cast<float>(q);
        }
        V value = Mul(scale, Load(integers));
        if constexpr (Format::kMinimum) value = Add(value, minimum);
        Store(out + k * kTileOutputs + 16 * h, value);
      }
    }
  }
}

template <class Format>
static void SumDecoded(const TileInput& in, const Target& to, const Scratch& s) {
  const int first = in.bounds[0] / 32;
  float* decoded = reinterpret_cast<float*>(s.weights);
  DecodeTile<Format>(in.tile + static_cast<int64_t>(first) * Format::kBlock,
                     in.bounds[in.groups] / 32 - first, decoded);
  FloatAllRows(in, decoded, to);
}

// ---- All of them.

static void SumPlanes(const TileInput& in, const Target& to, const Scratch& s) {
  switch (in.format) {
    case DType::kF32:
      return SumFloat<float>(in, to);
    case DType::kF16:
      return SumFloat<F16>(in, to);
    case DType::kBF16:
      return SumFloat<Bf16>(in, to);
    case DType::kQ8_0:
      return in.planes > 0 ? SumQuantised<Q80>(in, to, s) : SumDecoded<Q80>(in, to, s);
    case DType::kQ4_0:
      return in.planes > 0 ? SumQuantised<Q40>(in, to, s) : SumDecoded<Q40>(in, to, s);
    case DType::kQ4_1:
      return in.planes > 0 ? SumQuantised<Q41>(in, to, s) : SumDecoded<Q41>(in, to, s);
  }
}

static void SumTile(const TileInput& in, const Target& to, const Scratch& s) {
  if (in.planes < 2) return SumPlanes(in, to, s);
  // Two planes are two rows to every kernel above.
  TileInput planes = in;
  planes.rows = 2 * in.rows;
  SumPlanes(planes, {s.planes, kTileOutputs, nullptr}, s);
  for (int r = 0; r < in.rows; ++r) {
    const float* first = s.planes + 2 * r * kTileOutputs;
    const float* second = first + kTileOutputs;
    Sums<1> sum = {{{Add(Load(first), Load(second)), Add(Load(first + 16), Load(second + 16))}}};
    StoreSums<1>(sum, to, r);
  }
}

}  // namespace headway::kernels::cpu::HEADWAY_ISA

#endif  // HEADWAY_KERNELS_CPU_LINEAR_SUM_IMPL_H_
