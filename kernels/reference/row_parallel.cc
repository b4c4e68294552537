#include "kernels/reference/linear_sum.h"
#include "kernels/reference/reference_ops.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"

namespace headway::kernels::reference {

absl::Status RowParallel(const RowParallelParams& p, Stream&) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  const int local = static_cast<int>(p.groups.bounds.size()) - 1;
  if (local <= 0) return absl::OkStatus();
  const std::vector<TreeNode> nodes =
      MaximalSubtrees(p.groups.first, p.groups.first + local, p.groups.total);
  for (int o = 0; o < p.weight.outputs; ++o) {
    const std::vector<std::byte> weights = UnpackRow(p.weight, o);
    for (size_t n = 0; n < nodes.size(); ++n) {
      float* matrix = p.roots + static_cast<int64_t>(n) * p.root_matrix_stride;
      for (int row = 0; row < p.rows; ++row) {
        matrix[static_cast<int64_t>(row) * p.root_stride + o] =
            NodeSum(p.weight.format, weights, p.input, row, p.groups, nodes[n]);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RowParallelResidual(const RowParallelResidualParams& p, Stream&) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  const TreeNode root = MaximalSubtrees(0, p.groups.total, p.groups.total).front();
  for (int o = 0; o < p.weight.outputs; ++o) {
    const std::vector<std::byte> weights = UnpackRow(p.weight, o);
    for (int row = 0; row < p.rows; ++row) {
      float sum = NodeSum(p.weight.format, weights, p.input, row, p.groups, root);
      if (p.weight.bias != nullptr) sum = sum + p.weight.bias[o];
      float& residual = p.residual[static_cast<int64_t>(row) * p.residual_stride + o];
      residual = residual + sum;
    }
  }
  return absl::OkStatus();
}

}  // namespace headway::kernels::reference
