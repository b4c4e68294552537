#ifndef HEADWAY_KERNELS_PACK_H_
#define HEADWAY_KERNELS_PACK_H_

#include <cstddef>

#include "runtime/tensor/dtype.h"

namespace headway::kernels {

// The inverse of PackLinear for one block: writes BlockBytes(format) bytes in the checkpoint's own
// layout. `packed_row` counts the outputs as packed: of a gate-up matrix, column j's gate is row
// 32 * (j / 16) + j % 16, its up is 16 further.
void UnpackBlock(DType format, const std::byte* packed, int inputs, int packed_row, int block,
                 std::byte* out);

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_PACK_H_
