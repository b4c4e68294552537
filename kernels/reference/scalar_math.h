#ifndef HEADWAY_KERNELS_REFERENCE_SCALAR_MATH_H_
#define HEADWAY_KERNELS_REFERENCE_SCALAR_MATH_H_

#include <array>
#include <span>

#include "kernels/activations.h"
#include "runtime/tensor/dtype.h"

namespace headway::kernels::reference {

// The exponentials of math_constants.h.
float Exp(float x);
float Exp2(float x);  // x <= 0
float Silu(float x);

// The tree of 16 lanes (norm.h).
using Lanes = std::array<float, 16>;
float SumLanes(Lanes lanes);

// Writes one row as a linear's input: `values` rounded or copied, zeros up to the stride.
void StoreActivations(std::span<const float> values, const Activations& out, int row);

// A value of the KV cache as it is stored, and read back.
void StoreKv(DType dtype, float value, std::byte* at);
float LoadKv(DType dtype, const std::byte* at);

}  // namespace headway::kernels::reference

#endif  // HEADWAY_KERNELS_REFERENCE_SCALAR_MATH_H_
