#define HEADWAY_ISA sse42
#include "kernels/cpu/vec_sse42.h"
// The lanes come first: the kernels are written on them.
#include "kernels/cpu/table_impl.h"

namespace headway::kernels::cpu {

constinit const Table kSse42Table = HEADWAY_ISA::MakeTable("sse42");

}  // namespace headway::kernels::cpu
