#ifndef HEADWAY_KERNELS_CPU_LINEAR_IMPL_H_
#define HEADWAY_KERNELS_CPU_LINEAR_IMPL_H_

#include "kernels/cpu/linear_sum_impl.h"

// What happens to a tile's sums: each linear of a layer with what follows it.
namespace headway::kernels::cpu::HEADWAY_ISA {

static void StoreLinearTile(const StoreTile& t, const Scratch& s) {
  SumTile(t.in, {t.out, t.stride, t.in.bias}, s);
  if (t.count == kTileOutputs) return;
  for (int r = 0; r < t.in.rows; ++r) {
    for (int i = t.count; i < kTileOutputs; ++i) t.out[r * t.stride + i] = 0;
  }
}

static void AddResidualTile(const ResidualTile& t, const Scratch& s) {
  SumTile(t.in, {s.sums, kTileOutputs, t.in.bias}, s);
  for (int r = 0; r < t.in.rows; ++r) {
    float* residual = t.residual + r * t.stride;
    const float* sum = s.sums + r * kTileOutputs;
    if (t.count == kTileOutputs) {
      Store(residual, Add(Load(residual), Load(sum)));
      Store(residual + 16, Add(Load(residual + 16), Load(sum + 16)));
    } else {
      for (int i = 0; i < t.count; ++i) residual[i] = residual[i] + sum[i];
    }
  }
}

static void GateUpColumns(const GateUpTiles& t, const Scratch& s) {
  const int rows = t.in[0].rows;
  for (int half = 0; half < 2; ++half) {
    const TileInput& in = t.in[half];
    float* columns = s.columns + 16 * half;
    if (in.tile == nullptr) {
      for (int r = 0; r < rows; ++r) Store(columns + r * 32, Zero());
      continue;
    }
    SumTile(in, {s.sums, kTileOutputs, in.bias}, s);
    for (int r = 0; r < rows; ++r) {
      const float* sum = s.sums + r * kTileOutputs;
      Store(columns + r * 32, Mul(Load(sum + 16), Silu(Load(sum))));
    }
  }
  for (int r = 0; r < rows; ++r) {
    float* row = s.columns + r * 32;
    if (t.q8) {
      QuantiseBlock(Load(row), Load(row + 16), static_cast<Q8Block*>(t.output) + r * t.stride);
      continue;
    }
    for (int i = t.count; i < 32; ++i) row[i] = 0;
    float* out = static_cast<float*>(t.output) + r * t.stride;
    Store(out, Load(row));
    Store(out + 16, Load(row + 16));
  }
}

// ---- Queries, keys and values.

// Cosine and sine of 16 outputs from `output` on at a row's position.
struct Rotation {
  V cosine, sine;
};

HEADWAY_INLINE Rotation LoadRotation(const float* row, int head_dim, int output) {
  if (head_dim % 16 == 0) {
    const float* at = row + output % head_dim;
    return {Load(at), Load(at + head_dim)};
  }
  float cosine[16], sine[16];
  for (int i = 0; i < 16; ++i) {
    const int d = (output + i) % head_dim;
    cosine[i] = row[d];
    sine[i] = row[head_dim + d];
  }
  return {Load(cosine), Load(sine)};
}

HEADWAY_INLINE V Rotate(V x, const QkvTile& t, int row, int at) {
  const float* table = t.rope + static_cast<int64_t>(t.slots[row].position) * 2 * t.kv.head_dim;
  const Rotation r = LoadRotation(table, t.kv.head_dim, t.first + at);
  return Fma(SwapPairs(x), r.sine, Mul(x, r.cosine));
}

// K or V of (head, the row's block), and the row's place in the block.
template <class T>
HEADWAY_INLINE T* RowRun(const QkvTile& t, int row, int head, int64_t offset) {
  return reinterpret_cast<T*>(t.kv.base + head * t.kv.head_stride +
                              t.slots[row].block * t.kv.block_stride + offset);
}

template <class T>
static void StoreKeys(const QkvTile& t, const float* sums) {
  const int head_dim = t.kv.head_dim;
  for (int row = 0; row < t.in.rows; ++row, sums += kTileOutputs) {
    T rounded[kTileOutputs];
    StoreFinite(rounded, Rotate(Load(sums), t, row, 0));
    StoreFinite(rounded + 16, Rotate(Load(sums + 16), t, row, 16));
    const int slot = t.slots[row].position % kKvBlockTokens;
    for (int i = 0; i < t.count;) {
      const int head = (t.first + i) / head_dim;
      const int d = (t.first + i) % head_dim;
      const int left = head_dim - d;
      const int end = i + left < t.count ? i + left : t.count;
      T* to = RowRun<T>(t, row, head, 0) + d * kKvBlockTokens + slot;
      for (; i < end; ++i, to += kKvBlockTokens) *to = rounded[i];
    }
  }
}

template <class T>
static void StoreValues(const QkvTile& t, const float* sums) {
  const int head_dim = t.kv.head_dim;
  const bool whole = t.count == kTileOutputs && head_dim % kTileOutputs == 0;
  for (int row = 0; row < t.in.rows; ++row, sums += kTileOutputs) {
    const int64_t slot = t.slots[row].position % kKvBlockTokens * head_dim;
    if (whole) {
      T* to = RowRun<T>(t, row, t.first / head_dim, t.kv.value_offset) + slot + t.first % head_dim;
      StoreFinite(to, Load(sums));
      StoreFinite(to + 16, Load(sums + 16));
      continue;
    }
    T rounded[kTileOutputs];
    StoreFinite(rounded, Load(sums));
    StoreFinite(rounded + 16, Load(sums + 16));
    for (int i = 0; i < t.count; ++i) {
      const int head = (t.first + i) / head_dim;
      RowRun<T>(t, row, head, t.kv.value_offset)[slot + (t.first + i) % head_dim] = rounded[i];
    }
  }
}

static void StoreQueries(const QkvTile& t, const float* sums) {
  const V scale = Set(t.query_scale);
  for (int row = 0; row < t.in.rows; ++row, sums += kTileOutputs) {
    float* to = t.queries + row * t.query_stride + t.first;
    const V a = Mul(Rotate(Load(sums), t, row, 0), scale);
    const V b = Mul(Rotate(Load(sums + 16), t, row, 16), scale);
    if (t.count == kTileOutputs) {
      Store(to, a);
      Store(to + 16, b);
    } else {
      StoreFirst(to, a, t.count < 16 ? t.count : 16);
      if (t.count > 16) StoreFirst(to + 16, b, t.count - 16);
    }
  }
}

template <class T>
static void StoreCached(const QkvTile& t, const float* sums) {
  if (t.part == QkvTile::Part::kKey) {
    StoreKeys<T>(t, sums);
  } else {
    StoreValues<T>(t, sums);
  }
}

static void QkvColumns(const QkvTile& t, const Scratch& s) {
  SumTile(t.in, {s.sums, kTileOutputs, t.in.bias}, s);
  if (t.part == QkvTile::Part::kQuery) return StoreQueries(t, s.sums);
  switch (t.kv.dtype) {
    case DType::kF16:
      return StoreCached<F16>(t, s.sums);
    case DType::kBF16:
      return StoreCached<Bf16>(t, s.sums);
    default:
      return StoreCached<float>(t, s.sums);
  }
}

}  // namespace headway::kernels::cpu::HEADWAY_ISA

#endif  // HEADWAY_KERNELS_CPU_LINEAR_IMPL_H_
