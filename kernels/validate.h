#ifndef HEADWAY_KERNELS_VALIDATE_H_
#define HEADWAY_KERNELS_VALIDATE_H_

#include "absl/status/status.h"
#include "kernels/attention.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/norm.h"

namespace headway::kernels {

// What every backend demands of an op's parameters before it writes: shapes that agree, formats
// that meet, indices within bounds. InvalidArgument names the op, the value and the limit.
absl::Status Validate(const EmbeddingParams& params);
absl::Status Validate(const RmsNormParams& params);
absl::Status Validate(const QkvParams& params);
absl::Status Validate(const AttentionParams& params);
absl::Status Validate(const RowParallelParams& params);
absl::Status Validate(const RowParallelResidualParams& params);
absl::Status Validate(const GateUpParams& params);
absl::Status Validate(const LogitsParams& params);

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_VALIDATE_H_
