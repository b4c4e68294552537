#define HEADWAY_ISA avx512vnni
#define HEADWAY_VNNI
#include "kernels/cpu/vec_avx512.h"
// The lanes come first: the kernels are written on them.
#include "kernels/cpu/table_impl.h"

namespace headway::kernels::cpu {

constinit const Table kAvx512VnniTable = HEADWAY_ISA::MakeTable("avx512vnni");

}  // namespace headway::kernels::cpu
