#ifndef HEADWAY_KERNELS_ACTIVATIONS_H_
#define HEADWAY_KERNELS_ACTIVATIONS_H_

#include <cstddef>
#include <cstdint>

namespace headway::kernels {

// How a linear's input rows are stored: float32, or 8-bit integers with a scale per 32 inputs.
enum class ActivationFormat : uint8_t { kF32, kQ8 };

// 32 activations, quantised: value = q * scale. One record, so that a kernel needs one pointer a
// row. With `largest` the largest magnitude of the 32 values x: where it is at most 1e-30
// everything is 0; else q = nearest even integer to x * (127 / largest). A NaN among the values
// makes scale and scaled_sum NaN.
struct Q8Block {
  int8_t q[32];      // in [-127, 127]
  float scale;       // largest / 127
  float scaled_sum;  // scale * float(sum): meets the minimum of a Q4_1 block
  int32_t sum;       // of q: meets the offset of 8-bit and Q4_0 weights
  int32_t reserved;  // zero
};
static_assert(sizeof(Q8Block) == 48);

// Input rows of a linear, in memory that somebody else owns (64-byte aligned).
// [rows, width]: float [rows][stride], or Q8Block [rows][stride / 32].
struct Activations {
  ActivationFormat format = ActivationFormat::kF32;
  void* data = nullptr;
  int width = 0;   // K: inputs of the linear. A multiple of 32 for kQ8.
  int stride = 0;  // elements between rows: width rounded up to 32. [width, stride) is zero.

  float* f32(int row) const {
    return static_cast<float*>(data) + static_cast<int64_t>(row) * stride;
  }
  Q8Block* q8(int row) const {
    return static_cast<Q8Block*>(data) + static_cast<int64_t>(row) * (stride / 32);
  }
};

constexpr int ActivationStride(int width) { return (width + 31) / 32 * 32; }
constexpr int64_t ActivationRowBytes(ActivationFormat format, int width) {
  return format == ActivationFormat::kF32 ? static_cast<int64_t>(ActivationStride(width)) * 4
                                          : static_cast<int64_t>(ActivationStride(width)) / 32 *
                                                static_cast<int64_t>(sizeof(Q8Block));
}

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_ACTIVATIONS_H_
