#ifndef HEADWAY_KERNELS_NORM_H_
#define HEADWAY_KERNELS_NORM_H_

#include <cstdint>
#include <span>

#include "kernels/activations.h"

namespace headway::kernels {

// output[i] = input[row(i)] / sqrt(mean(square) + epsilon) * weight, as a linear's input:
//   lane[d mod 16] = fma(x[d], x[d], lane), d ascending, from 0
//   scale = 1 / sqrt(tree of lanes / float(width) + epsilon), three roundings and the root's
//   y[d] = (x[d] * scale) * weight[d]
// The tree of 16 lanes, here and in attention, adds lane i + 8 to lane i, then i + 4, i + 2, i + 1.
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
