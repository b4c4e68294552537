#include <cmath>
#include <vector>

#include "kernels/reference/reference_ops.h"
#include "kernels/reference/scalar_math.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"

namespace headway::kernels::reference {

absl::Status RmsNorm(const RmsNormParams& p, Stream&) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  const int width = p.output.width;
  std::vector<float> y(width);
  for (int row = 0; row < p.rows; ++row) {
    const int from = p.row_index.empty() ? row : p.row_index[row];
    const float* x = p.input + static_cast<int64_t>(from) * p.input_stride;
    Lanes lanes = {};
    for (int d = 0; d < width; ++d) lanes[d % 16] = std::fma(x[d], x[d], lanes[d % 16]);
    const float mean = SumLanes(lanes) / static_cast<float>(width);
    const float scale = 1.0f / std::sqrt(mean + p.epsilon);
    for (int d = 0; d < width; ++d) y[d] = (x[d] * scale) * p.weight[d];
    StoreActivations(y, p.output, row);
  }
  return absl::OkStatus();
}

}  // namespace headway::kernels::reference
