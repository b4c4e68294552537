#ifndef HEADWAY_RUNTIME_TENSOR_BLOCK_FORMATS_H_
#define HEADWAY_RUNTIME_TENSOR_BLOCK_FORMATS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/tensor/dtype.h"

namespace headway {

// The stored layouts, little endian, as GGML defines them. `f16` is the bits of a half.
//
//   q8_0   f16 scale | int8 q[32]                 value i = scale * q[i]
//   q4_0   f16 scale | uint8 n[16]                value i = scale * (nibble(i) - 8)
//   q4_1   f16 scale | f16 minimum | uint8 n[16]  value i = scale * nibble(i) + minimum
//
// nibble(i) is the low half of n[i] for i < 16 and the high half of n[i - 16] from 16 on.
// A product of an 11-bit scale and a quant of at most 8 bits is exact in float32, so each value is
// rounded once at most (the sum of q4_1), whatever the order of operations.

// Decodes one block to BlockElements(dtype) floats. `block`: BlockBytes(dtype), any alignment.
void DecodeBlock(DType dtype, const std::byte* block, float* out);

// Decodes `elements` consecutive values, a multiple of BlockElements(dtype).
void DecodeRow(DType dtype, const std::byte* row, int64_t elements, float* out);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TENSOR_BLOCK_FORMATS_H_
