#ifndef HEADWAY_KERNELS_NORM_H_
#define HEADWAY_KERNELS_NORM_H_

#include <cstdint>
#include <span>

#include "kernels/activations.h"

namespace headway::kernels {

// output[i] = input[row(i)] / sqrt(mean(square) + epsilon) * weight, as a linear's input.
// Squares are summed in 16 lanes (dimension mod 16; a tail fills lanes from 0 with zeros beyond),
// then the lanes' tree.
struct RmsNormParams {
  const float* input = nullptr;  // [*, width]
  int input_stride = 0;
  std::span<const int32_t> row_index;  // output row i reads input row row_index[i]; empty: row i
  int rows = 0;                        // of the output
  const float* weight = nullptr;       // [width]
  float epsilon = 0;
  Activations output;
};

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_NORM_H_
