#include <cmath>
#include <functional>

#include "kernels/reference/linear_sum.h"
#include "kernels/reference/reference_ops.h"
#include "kernels/reference/scalar_math.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"

namespace headway::kernels::reference {
namespace {

// [rows, outputs]
std::vector<float> Project(const PackedLinear& weight, const Activations& x, int rows) {
  std::vector<float> result(static_cast<size_t>(rows) * weight.outputs);
  for (int o = 0; o < weight.outputs; ++o) {
    const std::vector<std::byte> weights = UnpackRow(weight, o);
    for (int row = 0; row < rows; ++row) {
      result[static_cast<size_t>(row) * weight.outputs + o] = ColumnSum(weight, weights, x, row, o);
    }
  }
  return result;
}

// Dimension d of a head's projection x, rotated for `position`.
float Rotated(const float* x, int d, const RopeTable& rope, int position) {
  const float* cosines = rope.data + static_cast<int64_t>(position) * 2 * rope.head_dim;
  const float* sines = cosines + rope.head_dim;
  return std::fma(x[d ^ 1], sines[d], x[d] * cosines[d]);
}

}  // namespace

absl::Status Qkv(const QkvParams& p, Stream&) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  const std::vector<float> q = Project(p.q, p.input, p.rows);
  const std::vector<float> k = Project(p.k, p.input, p.rows);
  const std::vector<float> v = Project(p.v, p.input, p.rows);
  const int head_dim = p.kv.head_dim;
  const int value_bytes = BlockBytes(p.kv.dtype);
  for (const SpanView& span : p.spans) {
    for (int i = 0; i < span.rows; ++i) {
      const int64_t row = span.first_row + i;
      const int position = span.first_position + i;
      for (int o = 0; o < p.q.outputs; ++o) {
        const float* head = &q[row * p.q.outputs + o / head_dim * head_dim];
        p.queries[row * p.query_stride + o] =
            Rotated(head, o % head_dim, p.rope, position) * p.query_scale;
      }
      for (int h = 0; h < p.kv.kv_heads; ++h) {
        const float* key = &k[row * p.k.outputs + h * head_dim];
        const float* value = &v[row * p.v.outputs + h * head_dim];
        const int slot = position % kKvBlockTokens;
        std::byte* keys = p.kv.Run(h, span.block_table[position / kKvBlockTokens]);
        std::byte* values = keys + p.kv.HalfRunBytes();
        for (int d = 0; d < head_dim; ++d) {
          StoreKv(p.kv.dtype, Rotated(key, d, p.rope, position),
                  keys + (d * kKvBlockTokens + slot) * value_bytes);
          StoreKv(p.kv.dtype, value[d], values + (slot * head_dim + d) * value_bytes);
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace headway::kernels::reference
