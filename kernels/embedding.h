#ifndef HEADWAY_KERNELS_EMBEDDING_H_
#define HEADWAY_KERNELS_EMBEDDING_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/tensor/dtype.h"

namespace headway::kernels {

// output[i] = decoded row tokens[i] of the table in the checkpoint's own layout.
struct EmbeddingParams {
  DType format = DType::kF32;
  const std::byte* table =
      nullptr;  // [vocabulary, width], rows RowBytes(format, width) apart, any alignment
  int vocabulary = 0;
  int width = 0;
  std::span<const int32_t> tokens;  // each in [0, vocabulary): InvalidArgument otherwise
  float* output = nullptr;          // [tokens, width]
  int output_stride = 0;
};

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_EMBEDDING_H_
