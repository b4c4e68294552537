#include "kernels/packed_layout.h"
#include "kernels/reference/linear_sum.h"
#include "kernels/reference/reference_ops.h"
#include "kernels/reference/scalar_math.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"

namespace headway::kernels::reference {

absl::Status GateUp(const GateUpParams& p, Stream&) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  const int columns = p.weight.outputs / 2;
  std::vector<float> result(static_cast<size_t>(p.rows) * columns);
  for (int j = 0; j < columns; ++j) {
    const int gate = kTileOutputs * (j / kHalfTile) + j % kHalfTile;
    const int up = gate + kHalfTile;
    const std::vector<std::byte> gate_weights = UnpackRow(p.weight, gate);
    const std::vector<std::byte> up_weights = UnpackRow(p.weight, up);
    for (int row = 0; row < p.rows; ++row) {
      result[static_cast<size_t>(row) * columns + j] =
          ColumnSum(p.weight, up_weights, p.input, row, up) *
          Silu(ColumnSum(p.weight, gate_weights, p.input, row, gate));
    }
  }
  for (int row = 0; row < p.rows; ++row) {
    StoreActivations(std::span(result).subspan(static_cast<size_t>(row) * columns, columns),
                     p.output, row);
  }
  return absl::OkStatus();
}

}  // namespace headway::kernels::reference
