#define HEADWAY_ISA scalar
#include "kernels/cpu/vec_scalar.h"
// The lanes come first: the kernels are written on them.
#include "kernels/cpu/table_impl.h"

namespace headway::kernels::cpu {

constinit const Table kScalarTable = HEADWAY_ISA::MakeTable("scalar");

}  // namespace headway::kernels::cpu
