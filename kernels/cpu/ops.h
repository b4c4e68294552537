#ifndef HEADWAY_KERNELS_CPU_OPS_H_
#define HEADWAY_KERNELS_CPU_OPS_H_

#include "kernels/cpu/table.h"
#include "kernels/ops.h"

// The host side of each op: checks, cuts the work into units and hands them to the team. Compiled
// once, without a processor's flags; `table` does the arithmetic.
namespace headway::kernels::cpu {

absl::Status Embedding(const EmbeddingParams& params, Stream& stream);
absl::Status RmsNorm(const Table& table, const RmsNormParams& params, Stream& stream);
absl::Status Qkv(const Table& table, const QkvParams& params, Stream& stream);
absl::Status Attention(const Table& table, const AttentionParams& params, Stream& stream);
absl::Status RowParallel(const Table& table, const RowParallelParams& params, Stream& stream);
absl::Status RowParallelResidual(const Table& table, const RowParallelResidualParams& params,
                                 Stream& stream);
absl::Status GateUp(const Table& table, const GateUpParams& params, Stream& stream);
absl::Status Logits(const Table& table, const LogitsParams& params, Stream& stream);

// The tables of ops.h that this processor can run, fastest first.
std::vector<const Ops*> SupportedOps();

}  // namespace headway::kernels::cpu

#endif  // HEADWAY_KERNELS_CPU_OPS_H_
