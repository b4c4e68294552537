// The table of one processor. Included by avx512.cc, avx2.cc and scalar.cc after their vec_*.h.
#ifndef HEADWAY_KERNELS_CPU_TABLE_IMPL_H_
#define HEADWAY_KERNELS_CPU_TABLE_IMPL_H_

#include "kernels/cpu/attention_impl.h"
#include "kernels/cpu/linear_impl.h"

namespace headway::kernels::cpu::HEADWAY_ISA {

constexpr Table MakeTable(const char* name) {
  return {
      .name = name,
      .norm = Norm,
      .quantise = Quantise,
      .store_tile = StoreLinearTile,
      .residual_tile = AddResidualTile,
      .gate_up_tiles = GateUpColumns,
      .qkv_tile = QkvColumns,
      .attend_rows = AttendRows,
      .attend_token = AttendToken,
      .attend_split = AttendSplit,
      .merge_splits = MergeSplits,
  };
}

}  // namespace headway::kernels::cpu::HEADWAY_ISA

#endif  // HEADWAY_KERNELS_CPU_TABLE_IMPL_H_
