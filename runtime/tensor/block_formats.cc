#include "runtime/tensor/block_formats.h"

#include <bit>
#include <cstring>

#include "runtime/tensor/half.h"

namespace headway {
namespace {

static_assert(std::endian::native == std::endian::little,
              "stored tensors are little endian and are read in place");

template <class T>
T Load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

int Nibble(const std::byte* packed, int i) {
  const int both = std::to_integer<int>(packed[i % 16]);
  return i < 16 ? both & 15 : both >> 4;
}

void DecodeQ8_0(const std::byte* block, float* out) {
  const float scale = F16ToFloat(Load<uint16_t>(block));
  for (int i = 0; i < 32; ++i) {
    out[i] = scale * static_cast<float>(Load<int8_t>(block + 2 + i));
  }
}

void DecodeQ4_0(const std::byte* block, float* out) {
  const float scale = F16ToFloat(Load<uint16_t>(block));
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(Nibble(block + 2, i) - 8);
}

void DecodeQ4_1(const std::byte* block, float* out) {
  const float scale = F16ToFloat(Load<uint16_t>(block));
  const float minimum = F16ToFloat(Load<uint16_t>(block + 2));
  for (int i = 0; i < 32; ++i) {
    out[i] = scale * static_cast<float>(Nibble(block + 4, i)) + minimum;
  }
}

}  // namespace

void DecodeBlock(DType dtype, const std::byte* block, float* out) {
  switch (dtype) {
    case DType::kF32:
      *out = Load<float>(block);
      return;
    case DType::kF16:
      *out = F16ToFloat(Load<uint16_t>(block));
      return;
    case DType::kBF16:
      *out = Bf16ToFloat(Load<uint16_t>(block));
      return;
    case DType::kQ8_0:
      return DecodeQ8_0(block, out);
    case DType::kQ4_0:
      return DecodeQ4_0(block, out);
    case DType::kQ4_1:
      return DecodeQ4_1(block, out);
  }
}

void DecodeRow(DType dtype, const std::byte* row, int64_t elements, float* out) {
  const int block_elements = BlockElements(dtype);
  const int block_bytes = BlockBytes(dtype);
  for (int64_t i = 0; i < elements; i += block_elements) {
    DecodeBlock(dtype, row, out + i);
    row += block_bytes;
  }
}

}  // namespace headway
