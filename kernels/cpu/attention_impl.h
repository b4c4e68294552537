#ifndef HEADWAY_KERNELS_CPU_ATTENTION_IMPL_H_
#define HEADWAY_KERNELS_CPU_ATTENTION_IMPL_H_

#include "kernels/cpu/row_impl.h"

// Attention over the paged cache in the order that attention.h states. Scores: lanes are the 16
// keys of a block, one chain over the dimensions. Output: lanes are dimensions, one chain over
// positions. Two forms with the same bits: a token at a time straight from the cache (decode), and
// tiles of rows that share a split converted to float once (prefill).
namespace headway::kernels::cpu::HEADWAY_ISA {

constexpr int kSplitBlocks = kAttentionSplit / kKvBlockTokens;
// Blocks whose keys (or values) stay in the first-level cache while all rows of a tile meet them.
constexpr int kNearBlocks = 4;

constexpr int Padded(int head_dim) { return (head_dim + 15) / 16 * 16; }

// ---- Products of rows with blocks of keys and values.

// Scores of M query rows against N neighbouring blocks. keys[j]: [head_dim][16].
template <int M, int N, class T>
HEADWAY_INLINE void Scores(const float* q, int64_t q_stride, int head_dim, const T* const* keys,
                           float* out) {
  V acc[M][N];
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) acc[r][j] = Zero();
  }
  for (int d = 0; d < head_dim; ++d) {
    V k[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) k[j] = Load(keys[j] + d * kKvBlockTokens);
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) {
      const V x = Set(q[r * q_stride + d]);
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) acc[r][j] = Fma(x, k[j], acc[r][j]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      Store(out + r * kAttentionSplit + j * kKvBlockTokens, acc[r][j]);
    }
  }
}

// The same against `blocks` blocks.
template <int M, class T>
static void ScoreBlocks(const float* q, int64_t q_stride, int head_dim, const T* const* keys,
                        int blocks, float* out) {
  int b = 0;
  for (; b + kFloatColumns <= blocks; b += kFloatColumns) {
    Scores<M, kFloatColumns>(q, q_stride, head_dim, keys + b, out + b * kKvBlockTokens);
  }
  for (; b < blocks; ++b) {
    Scores<M, 1>(q, q_stride, head_dim, keys + b, out + b * kKvBlockTokens);
  }
}

// out[M][16 N] += p[row][t] * v[t] for t in [0, count), ascending; from zero if `first`.
template <int M, int N, class T>
HEADWAY_INLINE void Weighted(const float* p, const T* v, int64_t v_stride, int count, bool first,
                             float* out, int64_t out_stride) {
  V acc[M][N];
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) acc[r][j] = first ? Zero() : Load(out + r * out_stride + 16 * j);
  }
  for (int t = 0; t < count; ++t, v += v_stride) {
    V x[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) x[j] = Load(v + 16 * j);
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) {
      const V w = Set(p[r * kAttentionSplit + t]);
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) acc[r][j] = Fma(w, x[j], acc[r][j]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) Store(out + r * out_stride + 16 * j, acc[r][j]);
  }
}

// The same over all dimensions, `padded` of them.
template <int M, class T>
static void WeightedDims(const float* p, const T* v, int64_t v_stride, int count, bool first,
                         int padded, float* out, int64_t out_stride) {
  int d = 0;
  for (; d + 16 * kFloatColumns <= padded; d += 16 * kFloatColumns) {
    Weighted<M, kFloatColumns>(p, v + d, v_stride, count, first, out + d, out_stride);
  }
  for (; d < padded; d += 16) {
    Weighted<M, 1>(p, v + d, v_stride, count, first, out + d, out_stride);
  }
}

// ---- Softmax.

// Scores of M neighbouring rows' split -> probabilities in place; the first valid[r] keys count
// (ascending in r), the last block of a row is filled up with zeros. The rows run in step, because
// one row alone is a chain of dependent operations.
template <int M>
HEADWAY_INLINE void Softmax(float* s, const int* valid, float* states, int64_t state_stride) {
  const V none = Set(-__builtin_inff());
  const int common = valid[0] / 16 * 16;
  V most[M], total[M], top[M];
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
    most[r] = none;
    total[r] = Zero();
  }
  for (int i = 0; i < common; i += 16) {
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) most[r] = Max(Load(s + r * kAttentionSplit + i), most[r]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
    float* row = s + r * kAttentionSplit;
    for (int i = common; i < valid[r]; i += 16) {
      V v = Load(row + i);
      if (valid[r] - i < 16) {
        v = FirstLanes(v, valid[r] - i, none);
        Store(row + i, v);
      }
      most[r] = Max(v, most[r]);
    }
    const float max = MaxLanes(most[r]);
    states[r * state_stride + kStateMax] = max;
    top[r] = Set(max);
  }
  for (int i = 0; i < common; i += 16) {
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) {
      const V p = Exp2(Sub(Load(s + r * kAttentionSplit + i), top[r]));
      Store(s + r * kAttentionSplit + i, p);
      total[r] = Add(total[r], p);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
    float* row = s + r * kAttentionSplit;
    for (int i = common; i < valid[r]; i += 16) {
      const V p = Exp2(Sub(Load(row + i), top[r]));
      Store(row + i, p);
      total[r] = Add(total[r], p);
    }
    states[r * state_stride + kStateSum] = SumLanes(total[r]);
  }
}

static void SoftmaxRows(float* s, const int* valid, int rows, float* states, int64_t state_stride) {
  int r = 0;
  for (; r + kSoftmaxRows <= rows; r += kSoftmaxRows) {
    Softmax<kSoftmaxRows>(s + r * kAttentionSplit, valid + r, states + r * state_stride,
                          state_stride);
  }
  for (; r < rows; ++r) {
    Softmax<1>(s + r * kAttentionSplit, valid + r, states + r * state_stride, state_stride);
  }
}

// ---- States.

HEADWAY_INLINE float ScalarExp2(float x) {
  float lanes[16];
  Store(lanes, Exp2(Set(x)));
  return lanes[0];
}

// The state of a finished split takes the place of, or is merged into, that of the splits before.
// No zero of a split's output is negative.
static void MergeState(float* state, const float* split, bool first, int padded) {
  float* out = state + kStateOut;
  const float* next = split + kStateOut;
  if (first) {
    state[kStateMax] = split[kStateMax];
    state[kStateSum] = split[kStateSum];
    for (int d = 0; d < padded; d += 16) Store(out + d, Add(Load(next + d), Zero()));
    return;
  }
  const float max = state[kStateMax] > split[kStateMax] ? state[kStateMax] : split[kStateMax];
  const float a = ScalarExp2(state[kStateMax] - max);
  const float b = ScalarExp2(split[kStateMax] - max);
  const float before = state[kStateSum] * a;
  state[kStateSum] = before + split[kStateSum] * b;
  state[kStateMax] = max;
  for (int d = 0; d < padded; d += 16) {
    const V now = Add(Load(next + d), Zero());
    Store(out + d, Add(Mul(Load(out + d), Set(a)), Mul(now, Set(b))));
  }
}

// out / sum of one head, as float or q8.
static void FinishHead(const float* state, int head_dim, bool q8, void* output) {
  const V sum = Set(state[kStateSum]);
  const float* out = state + kStateOut;
  if (q8) {
    for (int d = 0; d < head_dim; d += 32) {
      QuantiseBlock(Div(Load(out + d), sum), Div(Load(out + d + 16), sum),
                    static_cast<Q8Block*>(output) + d / 32);
    }
    return;
  }
  float* to = static_cast<float*>(output);
  int d = 0;
  for (; d + 16 <= head_dim; d += 16) Store(to + d, Div(Load(out + d), sum));
  if (d < head_dim) StoreFirst(to + d, Div(Load(out + d), sum), head_dim - d);
}

HEADWAY_INLINE void* HeadOutput(const AttentionUnit& u, int row, int head) {
  const int64_t width = u.kv.head_dim;
  if (u.q8) {
    return static_cast<Q8Block*>(u.output) + row * u.output_stride + head * (width / 32);
  }
  return static_cast<float*>(u.output) + row * u.output_stride + head * width;
}

template <class T>
HEADWAY_INLINE const T* KeyRun(const AttentionUnit& u, int block) {
  return reinterpret_cast<const T*>(u.kv.base + u.kv_head * u.kv.head_stride +
                                    u.block_table[block] * u.kv.block_stride);
}

template <class T>
HEADWAY_INLINE const T* ValueRun(const AttentionUnit& u, const T* keys) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(keys) + u.kv.value_offset);
}

// ---- One token.

// Calls rows<M>(first row) until `total` rows are covered, by at most kFloatRows, evenly.
template <int M, class Rows>
HEADWAY_INLINE void CallRows(int m, int first, Rows rows) {
  if constexpr (M > 0) {
    if (m == M) return rows.template operator()<M>(first);
    CallRows<M - 1>(m, first, rows);
  }
}
template <class Rows>
HEADWAY_INLINE void EachRows(int total, Rows rows) {
  int parts = (total + kFloatRows - 1) / kFloatRows;
  for (int first = 0; parts > 0; --parts) {
    const int m = (total - first + parts - 1) / parts;
    CallRows<kFloatRows>(m, first, rows);
    first += m;
  }
}

template <class T>
static void AttendSplitOf(const AttentionUnit& u, int split, float* states, int64_t state_stride,
                          const Scratch& s) {
  const int head_dim = u.kv.head_dim;
  const int padded = Padded(head_dim);
  const int left = u.first_position + 1 - split * kAttentionSplit;
  const int valid = left < kAttentionSplit ? left : kAttentionSplit;
  const int blocks = (valid + kKvBlockTokens - 1) / kKvBlockTokens;
  const T* keys[kSplitBlocks];
  for (int b = 0; b < blocks; ++b) keys[b] = KeyRun<T>(u, split * kSplitBlocks + b);
  for (int b = 0; b < blocks; b += kNearBlocks) {
    const int near = blocks - b < kNearBlocks ? blocks - b : kNearBlocks;
    EachRows(u.heads, [&]<int M>(int r) HEADWAY_INLINE_LAMBDA {
      ScoreBlocks<M>(u.queries + r * head_dim, head_dim, head_dim, keys + b, near,
                     s.scores + r * kAttentionSplit + b * kKvBlockTokens);
    });
  }
  int all_valid[kMaxHeadRun] = {};
  for (int r = 0; r < u.heads; ++r) all_valid[r] = valid;
  SoftmaxRows(s.scores, all_valid, u.heads, states, state_stride);
  for (int b = 0; b < blocks; ++b) {
    const T* values = ValueRun(u, keys[b]);
    EachRows(u.heads, [&]<int M>(int r) HEADWAY_INLINE_LAMBDA {
      WeightedDims<M>(s.scores + r * kAttentionSplit + b * kKvBlockTokens, values, head_dim,
                      kKvBlockTokens, b == 0, padded, states + r * state_stride + kStateOut,
                      state_stride);
    });
  }
}

static void AttendSplit(const AttentionUnit& u, int split, float* states, int64_t state_stride,
                        const Scratch& s) {
  switch (u.kv.dtype) {
    case DType::kF16:
      return AttendSplitOf<F16>(u, split, states, state_stride, s);
    case DType::kBF16:
      return AttendSplitOf<Bf16>(u, split, states, state_stride, s);
    default:
      return AttendSplitOf<float>(u, split, states, state_stride, s);
  }
}

static void MergeSplits(const AttentionUnit& u, int splits, const float* states,
                        int64_t state_stride, int64_t split_stride, const Scratch& s) {
  const int padded = Padded(u.kv.head_dim);
  for (int h = 0; h < u.heads; ++h) {
    for (int i = 0; i < splits; ++i) {
      MergeState(s.merged, states + i * split_stride + h * state_stride, i == 0, padded);
    }
    FinishHead(s.merged, u.kv.head_dim, u.q8, HeadOutput(u, 0, h));
  }
}

static void AttendToken(const AttentionUnit& u, const Scratch& s) {
  const int padded = Padded(u.kv.head_dim);
  const int64_t stride = kStateOut + padded;
  for (int split = 0; split * kAttentionSplit <= u.first_position; ++split) {
    AttendSplit(u, split, s.split, stride, s);
    for (int h = 0; h < u.heads; ++h) {
      MergeState(s.merged + h * stride, s.split + h * stride, split == 0, padded);
    }
  }
  for (int h = 0; h < u.heads; ++h) {
    FinishHead(s.merged + h * stride, u.kv.head_dim, u.q8, HeadOutput(u, 0, h));
  }
}

// ---- A tile of rows.

// A split's keys and values as floats.
template <class T>
static void ConvertSplit(const AttentionUnit& u, int split, int blocks, const Scratch& s) {
  const int head_dim = u.kv.head_dim;
  const int padded = Padded(head_dim);
  for (int b = 0; b < blocks; ++b) {
    const T* keys = KeyRun<T>(u, split * kSplitBlocks + b);
    float* key_out = s.keys + static_cast<int64_t>(b) * kKvBlockTokens * head_dim;
    for (int d = 0; d < head_dim; ++d) {
      Store(key_out + d * kKvBlockTokens, Load(keys + d * kKvBlockTokens));
    }
    const T* values = ValueRun(u, keys);
    float* value_out = s.values + static_cast<int64_t>(b) * kKvBlockTokens * padded;
    for (int t = 0; t < kKvBlockTokens; ++t) {
      for (int d = 0; d < padded; d += 16) {
        Store(value_out + t * padded + d, Load(values + t * head_dim + d));
      }
    }
  }
}

// Rows of a tile are (token, head), tokens ascending, `heads` rows a token.
static void AttendTileSplit(const AttentionUnit& u, int split, const Scratch& s) {
  const int head_dim = u.kv.head_dim;
  const int padded = Padded(head_dim);
  const int64_t stride = kStateOut + padded;
  const int total = u.rows * u.heads;
  // Keys of this split that each row attends to, and the first row that attends to any.
  int reach[kTileRows];
  int begin = 0;
  for (int r = 0; r < total; ++r) {
    const int left = u.first_position + r / u.heads + 1 - split * kAttentionSplit;
    reach[r] = left < 0 ? 0 : left < kAttentionSplit ? left : kAttentionSplit;
    if (reach[r] == 0) begin = r + 1;
  }
  const int count = reach[total - 1];
  const float* keys[kSplitBlocks];
  for (int b = 0; b < kSplitBlocks; ++b) {
    keys[b] = s.keys + static_cast<int64_t>(b) * kKvBlockTokens * head_dim;
  }
  constexpr int kNear = kNearBlocks * kKvBlockTokens;
  for (int t = 0; t < count; t += kNear) {
    for (int first = begin; first < total; first += kFloatRows) {
      const int rows = total - first < kFloatRows ? total - first : kFloatRows;
      const int near = reach[first + rows - 1] - t;
      if (near <= 0) continue;
      const int blocks = near < kNear ? (near + kKvBlockTokens - 1) / kKvBlockTokens : kNearBlocks;
      EachRows(rows, [&]<int M>(int r) HEADWAY_INLINE_LAMBDA {
        ScoreBlocks<M>(s.queries + (first + r) * head_dim, head_dim, head_dim,
                       keys + t / kKvBlockTokens, blocks,
                       s.scores + (first + r) * kAttentionSplit + t);
      });
    }
  }
  SoftmaxRows(s.scores + begin * kAttentionSplit, reach + begin, total - begin,
              s.split + begin * stride, stride);
  // Rows that are multiplied together read as far as the last of them: at most one block more.
  for (int first = begin; first < total; first += kFloatRows) {
    const int rows = total - first < kFloatRows ? total - first : kFloatRows;
    const int end = (reach[first + rows - 1] + 15) / 16 * 16;
    for (int r = first; r < first + rows; ++r) {
      for (int i = (reach[r] + 15) / 16 * 16; i < end; i += 16) {
        Store(s.scores + r * kAttentionSplit + i, Zero());
      }
    }
  }
  for (int t = 0; t < count; t += kNear) {
    for (int first = begin; first < total; first += kFloatRows) {
      const int rows = total - first < kFloatRows ? total - first : kFloatRows;
      const int left = reach[first + rows - 1] - t;
      if (left <= 0) continue;
      EachRows(rows, [&]<int M>(int r) HEADWAY_INLINE_LAMBDA {
        WeightedDims<M>(s.scores + (first + r) * kAttentionSplit + t,
                        s.values + static_cast<int64_t>(t) * padded, padded,
                        left < kNear ? left : kNear, t == 0, padded,
                        s.split + (first + r) * stride + kStateOut, stride);
      });
    }
  }
  for (int r = begin; r < total; ++r) {
    MergeState(s.merged + r * stride, s.split + r * stride, split == 0, padded);
  }
}

static void AttendRows(const AttentionUnit& u, const Scratch& s) {
  const int head_dim = u.kv.head_dim;
  const int64_t stride = kStateOut + Padded(head_dim);
  const int total = u.rows * u.heads;
  for (int r = 0; r < total; ++r) {
    __builtin_memcpy(s.queries + r * head_dim,
                     u.queries + r / u.heads * u.query_stride + r % u.heads * head_dim,
                     sizeof(float) * head_dim);
  }
  const int last = u.first_position + u.rows - 1;
  for (int split = 0; split * kAttentionSplit <= last; ++split) {
    const int left = last + 1 - split * kAttentionSplit;
    const int blocks =
        left < kAttentionSplit ? (left + kKvBlockTokens - 1) / kKvBlockTokens : kSplitBlocks;
    switch (u.kv.dtype) {
      case DType::kF16:
        ConvertSplit<F16>(u, split, blocks, s);
        break;
      case DType::kBF16:
        ConvertSplit<Bf16>(u, split, blocks, s);
        break;
      default:
        ConvertSplit<float>(u, split, blocks, s);
    }
    AttendTileSplit(u, split, s);
  }
  for (int r = 0; r < total; ++r) {
    FinishHead(s.merged + r * stride, head_dim, u.q8, HeadOutput(u, r / u.heads, r % u.heads));
  }
}

}  // namespace headway::kernels::cpu::HEADWAY_ISA

#endif  // HEADWAY_KERNELS_CPU_ATTENTION_IMPL_H_
