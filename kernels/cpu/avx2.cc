#define HEADWAY_ISA avx2
#include "kernels/cpu/vec_avx2.h"
// The lanes come first: the kernels are written on them.
#include "kernels/cpu/table_impl.h"

namespace headway::kernels::cpu {

constinit const Table kAvx2Table = HEADWAY_ISA::MakeTable("avx2");

}  // namespace headway::kernels::cpu
