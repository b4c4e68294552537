#ifndef HEADWAY_RUNTIME_TENSOR_DTYPE_H_
#define HEADWAY_RUNTIME_TENSOR_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace headway {

// Number formats of stored tensors. Quantised ones come in blocks of 32 along the last dimension.
enum class DType : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1 };

inline constexpr DType kAllDTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16,
                                       DType::kQ8_0, DType::kQ4_0, DType::kQ4_1};

// "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1".
std::string_view DTypeName(DType dtype);

// The other way round; none for any other text.
std::optional<DType> DTypeFromName(std::string_view name);

// Values of one block: 32 for the quantised formats, else 1.
constexpr int BlockElements(DType dtype) { return dtype >= DType::kQ8_0 ? 32 : 1; }

// Bytes of one block: f16 scale (and, for Q4_1, f16 minimum) before the quants, as GGML lays it
// out.
constexpr int BlockBytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 4;
    case DType::kF16:
      return 2;
    case DType::kBF16:
      return 2;
    case DType::kQ8_0:
      return 34;
    case DType::kQ4_0:
      return 18;
    case DType::kQ4_1:
      return 20;
  }
  return 0;
}

constexpr bool IsQuantised(DType dtype) { return BlockElements(dtype) != 1; }

// Bytes of a dense row; `elements` must be a multiple of BlockElements(dtype).
constexpr int64_t RowBytes(DType dtype, int64_t elements) {
  return elements / BlockElements(dtype) * BlockBytes(dtype);
}

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TENSOR_DTYPE_H_
