#include "kernels/reference/reference_ops.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"
#include "runtime/tensor/block_formats.h"

namespace headway::kernels::reference {

absl::Status Embedding(const EmbeddingParams& p, Stream&) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  const int64_t row_bytes = RowBytes(p.format, p.width);
  for (size_t i = 0; i < p.tokens.size(); ++i) {
    DecodeRow(p.format, p.table + p.tokens[i] * row_bytes, p.width,
              p.output + static_cast<int64_t>(i) * p.output_stride);
  }
  return absl::OkStatus();
}

}  // namespace headway::kernels::reference
