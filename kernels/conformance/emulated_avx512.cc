// The emulation first: it takes the intrinsics' names over.
#include "kernels/conformance/emulated_avx512.h"
#define HEADWAY_ISA avx512_emulated
#include "kernels/cpu/vec_avx512.h"
// Then the lanes, which the kernels are written on.
#include "kernels/cpu/table_impl.h"

namespace headway::kernels::cpu {

extern const Table kEmulatedAvx512Table;
constinit const Table kEmulatedAvx512Table = HEADWAY_ISA::MakeTable("avx512, emulated");

}  // namespace headway::kernels::cpu
