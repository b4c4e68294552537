#ifndef HEADWAY_RUNTIME_CHECKPOINT_GGUF_FILE_H_
#define HEADWAY_RUNTIME_CHECKPOINT_GGUF_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace headway {

// The container format GGUF, versions 2 and 3, little endian:
//
//   "GGUF" | u32 version | u64 tensors | u64 keys
//   keys:    string name | u32 type | value        string = u64 length, bytes; array = u32 element
//   tensors: string name | u32 dimensions | u64 each, innermost first | u32 type | u64 offset
//   zeroes up to the alignment (key general.alignment, 32 without it)
//   data: each tensor at its offset from here, a multiple of the alignment
enum class GgufType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

// One value, where it lies in the file and already checked: of a known type, whole, booleans 0 or
// 1.
struct GgufValue {
  GgufType type = GgufType::kUint8;
  std::span<const std::byte> bytes;  // of an array: its elements
  // Arrays only.
  GgufType element_type = GgufType::kUint8;
  uint64_t count = 0;
};

struct GgufTensor {
  uint32_t type = 0;                 // see FindGgmlType; may be unknown
  std::vector<int64_t> shape;        // outermost first
  std::span<const std::byte> bytes;  // of an unknown type: empty, at its first byte
};

// A parsed file image. Views into it throughout.
struct GgufContents {
  std::span<const std::byte> header;  // from the magic to the end of the keys
  std::map<std::string_view, GgufValue, std::less<>> keys;
  std::map<std::string_view, GgufTensor, std::less<>> tensors;
};

// Checks everything that can be checked without reading tensor data. DataLoss when the file ends
// early, InvalidArgument when it contradicts itself; the message names the key or tensor. Memory
// used is in proportion to the file, whatever lengths it claims.
absl::StatusOr<GgufContents> ParseGguf(std::span<const std::byte> file);

// Bytes of a scalar; 0 for strings and arrays.
int GgufScalarBytes(GgufType type);

// "uint32", "string", ...
std::string_view GgufTypeName(GgufType type);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CHECKPOINT_GGUF_FILE_H_
