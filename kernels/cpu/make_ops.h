#ifndef HEADWAY_KERNELS_CPU_MAKE_OPS_H_
#define HEADWAY_KERNELS_CPU_MAKE_OPS_H_

#include "kernels/cpu/ops.h"
#include "kernels/cpu/workspace.h"

namespace headway::kernels::cpu {

// The ops of one processor's table.
template <const Table& kTable>
constexpr Ops MakeOps(const char* name) {
  return {
      .name = name,
      .NewWorkspace = CpuWorkspace::Create,
      .Embedding = Embedding,
      .RmsNorm = [](const RmsNormParams& p, Stream& s) { return RmsNorm(kTable, p, s); },
      .Qkv = [](const QkvParams& p, Stream& s) { return Qkv(kTable, p, s); },
      .Attention = [](const AttentionParams& p, Stream& s) { return Attention(kTable, p, s); },
      .RowParallel = [](const RowParallelParams& p,
                        Stream& s) { return RowParallel(kTable, p, s); },
      .RowParallelResidual = [](const RowParallelResidualParams& p,
                                Stream& s) { return RowParallelResidual(kTable, p, s); },
      .GateUp = [](const GateUpParams& p, Stream& s) { return GateUp(kTable, p, s); },
      .Logits = [](const LogitsParams& p, Stream& s) { return Logits(kTable, p, s); },
  };
}

}  // namespace headway::kernels::cpu

#endif  // HEADWAY_KERNELS_CPU_MAKE_OPS_H_
