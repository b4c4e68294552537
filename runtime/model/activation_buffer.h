#ifndef HEADWAY_RUNTIME_MODEL_ACTIVATION_BUFFER_H_
#define HEADWAY_RUNTIME_MODEL_ACTIVATION_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/activations.h"
#include "runtime/base/status.h"
#include "runtime/device/host_buffer.h"

namespace headway {

// Input rows of linears: memory for some rows of one width in any format. Which one a linear
// takes depends on its weights, so a buffer may hold one now and the other later.
class ActivationBuffer {
 public:
  // A width of 0 needs no memory.
  absl::Status Allocate(int rows, int width) {
    using kernels::ActivationFormat;
    width_ = width;
    if (width == 0) return absl::OkStatus();
    const int64_t row_bytes = std::max(kernels::ActivationRowBytes(ActivationFormat::kF32, width),
                                       kernels::ActivationRowBytes(ActivationFormat::kQ16, width));
    HEADWAY_ASSIGN_OR_RETURN(memory_, HostBuffer::Allocate(row_bytes * rows));
    return absl::OkStatus();
  }

  kernels::Activations As(kernels::ActivationFormat format) const {
    return {.format = format,
            .data = memory_.data(),
            .width = width_,
            .stride = kernels::ActivationStride(width_)};
  }

 private:
  HostBuffer memory_;
  int width_ = 0;
};

// The rows of `activations` from `row` on.
inline kernels::Activations RowsFrom(kernels::Activations activations, int row) {
  activations.data = static_cast<std::byte*>(activations.data) +
                     row * kernels::ActivationRowBytes(activations.format, activations.width);
  return activations;
}

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_ACTIVATION_BUFFER_H_
