#include "kernels/packed_layout.h"
#include "kernels/reference/linear_sum.h"
#include "kernels/reference/reference_ops.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"

namespace headway::kernels::reference {

absl::Status Logits(const LogitsParams& p, Stream&) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  const int padded = (p.weight.outputs + kTileOutputs - 1) / kTileOutputs * kTileOutputs;
  for (int o = 0; o < padded; ++o) {
    const std::vector<std::byte> weights = UnpackRow(p.weight, o);
    for (int row = 0; row < p.rows; ++row) {
      p.logits[row * p.stride + o] =
          o < p.weight.outputs ? ColumnSum(p.weight, weights, p.input, row, o) : 0.0f;
    }
  }
  return absl::OkStatus();
}

}  // namespace headway::kernels::reference
