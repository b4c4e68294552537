#ifndef HEADWAY_KERNELS_ACTIVATIONS_H_
#define HEADWAY_KERNELS_ACTIVATIONS_H_

#include <cstddef>
#include <cstdint>

namespace headway::kernels {

// How a linear's input rows are stored: float32; 8-bit integers with a scale per 32 inputs; or two
// rows of such integers, the values' and the remainders', for inputs where eight bits cost too much
// accuracy (RmsNorm writes them, column-parallel linears read them).
enum class ActivationFormat : uint8_t { kF32, kQ8, kQ16 };

// Rows of Q8Blocks that one row of activations takes.
constexpr int Q8Planes(ActivationFormat format) {
  return format == ActivationFormat::kF32 ? 0 : format == ActivationFormat::kQ8 ? 1 : 2;
}

// 32 activations, quantised: value = q * scale. One record, so that a kernel needs one pointer a
// row. With `largest` the largest magnitude of the 32 values x: where it is at most 1e-30
// everything is 0; else q = nearest even integer to x * (127 / largest). A NaN among the values
// makes scale and scaled_sum NaN. The second plane of kQ16 holds fma(-q, scale, x) likewise.
struct Q8Block {
  int8_t q[32];      // in [-127, 127]
  float scale;       // largest / 127
  float scaled_sum;  // scale * float(sum): meets the minimum of a Q4_1 block
  int32_t sum;       // of q: meets the offset of 8-bit and Q4_0 weights
  int32_t reserved;  // zero
};
static_assert(sizeof(Q8Block) == 48);

// Input rows of a linear, in memory that somebody else owns (64-byte aligned).
// [rows, width]: float [rows][stride], or Q8Block [rows][planes][stride / 32].
struct Activations {
  ActivationFormat format = ActivationFormat::kF32;
  void* data = nullptr;
  int width = 0;   // K: inputs of the linear. A multiple of 32 for kQ8 and kQ16.
  int stride = 0;  // elements between rows: width rounded up to 32. [width, stride) is zero.

  float* f32(int row) const {
    return static_cast<float*>(data) + static_cast<int64_t>(row) * stride;
  }
  Q8Block* q8(int row, int plane = 0) const {
    return static_cast<Q8Block*>(data) +
           (static_cast<int64_t>(row) * Q8Planes(format) + plane) * (stride / 32);
  }
};

constexpr int ActivationStride(int width) { return (width + 31) / 32 * 32; }
constexpr int64_t ActivationRowBytes(ActivationFormat format, int width) {
  const int64_t stride = ActivationStride(width);
  return format == ActivationFormat::kF32
             ? stride * 4
             : Q8Planes(format) * (stride / 32) * static_cast<int64_t>(sizeof(Q8Block));
}

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_ACTIVATIONS_H_
