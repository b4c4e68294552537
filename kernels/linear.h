#ifndef HEADWAY_KERNELS_LINEAR_H_
#define HEADWAY_KERNELS_LINEAR_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/activations.h"
#include "kernels/kv_layer_view.h"
#include "runtime/tensor/dtype.h"

namespace headway::kernels {

// A weight matrix [outputs, inputs] packed for this backend's kernels (tiles of neighbouring
// outputs, so that lanes are outputs). A view; the weights' owner keeps the memory, 64-byte
// aligned.
struct PackedLinear {
  DType format = DType::kF32;
  int outputs = 0;
  int inputs = 0;
  const std::byte* data = nullptr;
  const float* bias = nullptr;  // [outputs rounded up to 32, zero-filled], or null
};

// Bytes that PackLinear writes.
int64_t PackedLinearBytes(DType format, int outputs, int inputs);

// Packs rows[i] (pointers to `inputs` consecutive values in the checkpoint's own layout; for a
// slice of the inputs the caller has moved the pointers) to `out`. Exact: no value changes.
// `inputs` is a multiple of BlockElements(format).
void PackLinear(DType format, std::span<const std::byte* const> rows, int inputs, std::byte* out);

// Gate and up projections of a gated MLP, `outputs` rows each, as one matrix: 16 outputs of each in
// turn, so a tile of 32 gives 16 finished columns; the last tile is filled up with zeros on both
// sides. A bias lies alike: column j's gate at 32 * (j / 16) + j % 16, its up 16 further,
// [outputs rounded up to 16, times 2]. Both have the same format.
int64_t PackedGateUpBytes(DType format, int outputs, int inputs);
void PackGateUp(DType format, std::span<const std::byte* const> gate_rows,
                std::span<const std::byte* const> up_rows, int inputs, std::byte* out);

// Every linear computes, per output element, in this order on every processor, batch and degree:
//   float weights: acc = fma(w[k], x[k], acc), k ascending within a reduction group, from 0
//   quantised weights, f32 activations: the same with w[k] = the block's decoded value (float32,
//     one rounding)
//   quantised weights, q8 activations, per block of 32, ascending within a group, from 0:
//     dot = sum of q * weight's integer (exact; Q4_0's and Q8_0's are signed, Q4_1's 0..15);
//     acc = fma(float(dot) * x.scale, w.scale, acc); Q4_1 adds acc = fma(w.min, x.scaled_sum, acc)
//   quantised weights, q16 activations: the sum of the first plane plus the sum of the second
// Groups are added along the tree of runtime/tensor/reduction_tree.h. Column-parallel linears have
// one group (all of K). A bias is added to the sum, one rounding.
// q8 and q16 activations meet quantised weights only, q16 column-parallel linears only (planes
// added between subtrees would depend on the degree); InvalidArgument otherwise.

// Which cut of K a row-parallel linear uses, and which part of it is local. Units of K in `bounds`;
// multiples of 32 where the weights are quantised.
struct ReductionGroups {
  int total = 1;                // groups of the whole model
  int first = 0;                // first local group
  std::span<const int> bounds;  // local groups + 1 ascending offsets into the local K, from 0 to
                                // inputs; a rank without groups gives one bound or none
};

// x * w^T by groups, summed along the tree as far as the local groups reach.
struct RowParallelParams {
  Activations input;
  int rows = 0;
  PackedLinear weight;  // bias is ignored here: it is added once, after the whole tree
  ReductionGroups groups;
  // One matrix per maximal subtree of the local groups (MaximalSubtrees order), none without, each
  // [rows, outputs], rows `root_stride` floats apart, matrices `root_matrix_stride` floats apart.
  float* roots = nullptr;
  int root_stride = 0;  // a multiple of 32, at least outputs
  int64_t root_matrix_stride = 0;
};

// When one rank owns all groups: residual[row][o] += (tree sum (+ weight.bias)), the bits that
// RowParallel, an exchange of roots and the additions after it give.
struct RowParallelResidualParams {
  Activations input;
  int rows = 0;
  PackedLinear weight;
  ReductionGroups groups;
  float* residual = nullptr;  // [rows, outputs]
  int residual_stride = 0;
};

// silu(gate) * up as the input of the next linear; silu(x) = x / (1 + e^-x), e^x as
// math_constants.h has it.
struct GateUpParams {
  Activations input;
  int rows = 0;
  PackedLinear weight;  // PackGateUp; outputs counts gate + up: twice the columns
  Activations output;   // width = outputs / 2
};

// LM head: logits[i] of chosen rows. Columns from `outputs` to the next multiple of 32 get zeros.
struct LogitsParams {
  Activations input;  // already gathered: row i of the input gives row i of the logits
  int rows = 0;
  PackedLinear weight;
  float* logits = nullptr;  // [rows, outputs], stride below
  int64_t stride = 0;       // a multiple of 32, at least outputs rounded up to 32
};

// Rotary table: per position the cosine of each dimension, then the sine with the sign that
// neighbour rotation needs (-sin at even, +sin at odd dimensions). Pairs are neighbours
// (2i, 2i + 1): rotated x[d] = fma(x[d's neighbour], sin[d], x[d] * cos[d]). head_dim is even.
struct RopeTable {
  const float* data = nullptr;  // [max_positions][2][head_dim]
  int head_dim = 0;
  int max_positions = 0;
};

// Q, K and V projections of all rows; queries are rotated, then multiplied by query_scale (which
// carries log2(e), the softmax works in base 2) and stored; keys are rotated, rounded to the
// cache's dtype and stored in their block; values likewise without rotation.
struct QkvParams {
  Activations input;
  int rows = 0;
  PackedLinear q, k, v;  // outputs: local heads * head_dim; biases before the rotation
  RopeTable rope;
  float query_scale = 1;
  std::span<const SpanView> spans;  // cover rows 0..rows-1 in order
  float* queries = nullptr;         // [rows, q.outputs], stride below
  int query_stride = 0;
  KvLayerView kv;
};

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_LINEAR_H_
