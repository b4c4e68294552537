#include "kernels/cpu/ops.h"
#include "kernels/cpu/workspace.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"
#include "runtime/tensor/block_formats.h"

namespace headway::kernels::cpu {
namespace {

// Values below which waking the team costs more than it gains.
constexpr int64_t kSerialValues = 3000;

template <class Row>
void EachRow(ThreadTeam& team, int rows, int width, Row row) {
  if (static_cast<int64_t>(rows) * width <= kSerialValues) {
    team.SerialFor(rows, row);
  } else {
    team.ParallelFor(rows, row);
  }
}

}  // namespace

absl::Status Embedding(const EmbeddingParams& p, Stream& stream) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  HEADWAY_RETURN_IF_ERROR(CpuWorkspace::Of("embedding", stream).status());
  const int64_t row_bytes = RowBytes(p.format, p.width);
  EachRow(*stream.team, static_cast<int>(p.tokens.size()), p.width, [&](int i, int) {
    DecodeRow(p.format, p.table + p.tokens[i] * row_bytes, p.width,
              p.output + static_cast<int64_t>(i) * p.output_stride);
  });
  return absl::OkStatus();
}

absl::Status RmsNorm(const Table& table, const RmsNormParams& p, Stream& stream) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  HEADWAY_RETURN_IF_ERROR(CpuWorkspace::Of("rms_norm", stream).status());
  const int planes = Q8Planes(p.output.format);
  EachRow(*stream.team, p.rows, p.output.width, [&](int row, int) {
    const int64_t from = p.row_index.empty() ? row : p.row_index[row];
    table.norm({
        .input = p.input + from * p.input_stride,
        .weight = p.weight,
        .width = p.output.width,
        .epsilon = p.epsilon,
        .planes = planes,
        .output = planes > 0 ? static_cast<void*>(p.output.q8(row)) : p.output.f32(row),
        .stride = p.output.stride,
    });
  });
  return absl::OkStatus();
}

}  // namespace headway::kernels::cpu
