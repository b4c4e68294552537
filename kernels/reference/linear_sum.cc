#include "kernels/reference/linear_sum.h"

#include <array>
#include <cmath>
#include <cstring>

#include "kernels/pack.h"
#include "runtime/tensor/block_formats.h"
#include "runtime/tensor/half.h"

namespace headway::kernels::reference {
namespace {

float HalfAt(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return F16ToFloat(bits);
}

// The integers that meet 8-bit activations.
std::array<int, 32> Integers(DType format, const std::byte* block) {
  std::array<int, 32> q;
  for (int i = 0; i < 32; ++i) {
    if (format == DType::kQ8_0) {
      q[i] = static_cast<int8_t>(block[2 + i]);
    } else {
      const int at = format == DType::kQ4_0 ? 2 : 4;
      const int pair = static_cast<int>(block[at + i % 16]);
      q[i] = i < 16 ? pair & 15 : pair >> 4;
      if (format == DType::kQ4_0) q[i] -= 8;
    }
  }
  return q;
}

}  // namespace

std::vector<std::byte> UnpackRow(const PackedLinear& weight, int packed_row) {
  std::vector<std::byte> row(RowBytes(weight.format, weight.inputs));
  const int block_bytes = BlockBytes(weight.format);
  for (int b = 0; b < weight.inputs / BlockElements(weight.format); ++b) {
    UnpackBlock(weight.format, weight.data, weight.inputs, packed_row, b,
                row.data() + static_cast<int64_t>(b) * block_bytes);
  }
  return row;
}

float GroupSum(DType format, const std::vector<std::byte>& weights, const Activations& x, int row,
               int begin, int end, int plane) {
  const int step = BlockElements(format);
  float sum = 0;
  for (int k = begin; k < end; k += step) {
    const std::byte* block = weights.data() + RowBytes(format, k);
    if (x.format == ActivationFormat::kF32) {
      float w[32];
      DecodeBlock(format, block, w);
      for (int i = 0; i < step; ++i) sum = std::fma(w[i], x.f32(row)[k + i], sum);
      continue;
    }
    const Q8Block& a = x.q8(row, plane)[k / 32];
    const std::array<int, 32> q = Integers(format, block);
    int dot = 0;
    for (int i = 0; i < 32; ++i) dot += q[i] * a.q[i];
    sum = std::fma(static_cast<float>(dot) * a.scale, HalfAt(block), sum);
    if (format == DType::kQ4_1) sum = std::fma(HalfAt(block + 2), a.scaled_sum, sum);
  }
  return sum;
}

float ColumnSum(const PackedLinear& weight, const std::vector<std::byte>& weights,
                const Activations& x, int row, int packed_row) {
  float sum = GroupSum(weight.format, weights, x, row, 0, weight.inputs);
  if (x.format == ActivationFormat::kQ16) {
    sum += GroupSum(weight.format, weights, x, row, 0, weight.inputs, 1);
  }
  return weight.bias == nullptr ? sum : sum + weight.bias[packed_row];
}

float NodeSum(DType format, const std::vector<std::byte>& weights, const Activations& x, int row,
              const ReductionGroups& groups, TreeNode node) {
  if (node.level == 0) {
    const int g = node.index - groups.first;
    return GroupSum(format, weights, x, row, groups.bounds[g], groups.bounds[g + 1]);
  }
  const TreeNode left = {node.level - 1, 2 * node.index};
  const TreeNode right = {node.level - 1, 2 * node.index + 1};
  const float sum = NodeSum(format, weights, x, row, groups, left);
  if (FirstGroup(right) >= groups.total) return sum;
  return sum + NodeSum(format, weights, x, row, groups, right);
}

}  // namespace headway::kernels::reference
