#ifndef HEADWAY_KERNELS_REFERENCE_REFERENCE_OPS_H_
#define HEADWAY_KERNELS_REFERENCE_REFERENCE_OPS_H_

#include "kernels/ops.h"

// One function an op, each in its own file: the formula and its order of summation as the public
// headers state them, in plain loops over scalars. They allocate and are slow.
namespace headway::kernels::reference {

absl::Status Embedding(const EmbeddingParams& params, Stream& stream);
absl::Status RmsNorm(const RmsNormParams& params, Stream& stream);
absl::Status Qkv(const QkvParams& params, Stream& stream);
absl::Status Attention(const AttentionParams& params, Stream& stream);
absl::Status RowParallel(const RowParallelParams& params, Stream& stream);
absl::Status RowParallelResidual(const RowParallelResidualParams& params, Stream& stream);
absl::Status GateUp(const GateUpParams& params, Stream& stream);
absl::Status Logits(const LogitsParams& params, Stream& stream);

}  // namespace headway::kernels::reference

#endif  // HEADWAY_KERNELS_REFERENCE_REFERENCE_OPS_H_
