// The emulation first: it takes the intrinsics' names over.
#include "kernels/conformance/emulated_avx512.h"
#define HEADWAY_ISA avx512vnni_emulated
#define HEADWAY_VNNI
#include "kernels/cpu/vec_avx512.h"
// Then the lanes, which the kernels are written on.
#include "kernels/cpu/table_impl.h"

namespace headway::kernels::cpu {

extern const Table kEmulatedAvx512VnniTable;
constinit const Table kEmulatedAvx512VnniTable = HEADWAY_ISA::MakeTable("avx512vnni, emulated");

}  // namespace headway::kernels::cpu
