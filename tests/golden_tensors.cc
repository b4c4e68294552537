#include "tests/golden_tensors.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/checkpoint/safetensors_file.h"
#include "runtime/tensor/half.h"

namespace headway {
namespace {

[[noreturn]] void Die(const std::string& path, const std::string& why) {
  std::fprintf(stderr, "golden file %s: %s\n", path.c_str(), why.c_str());
  std::abort();
}

// The bytes as values of type Stored, each through `convert`.
template <class Stored, class Out, class Convert>
std::vector<Out> Values(std::span<const std::byte> bytes, Convert convert) {
  std::vector<Out> values(bytes.size() / sizeof(Stored));
  for (size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = convert(stored);
  }
  return values;
}

template <class Stored>
std::vector<int32_t> Ints(std::span<const std::byte> bytes) {
  return Values<Stored, int32_t>(bytes, [](Stored v) { return static_cast<int32_t>(v); });
}

}  // namespace

GoldenTensors ReadGolden(const std::string& path) {
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path);
  if (!file.ok()) Die(path, file.status().ToString());
  GoldenTensors tensors;
  for (const auto& [name, entry] : file->entries()) {
    GoldenTensor tensor{entry.shape, {}, {}};
    if (entry.dtype == "F32") {
      tensor.floats = Values<float, float>(entry.bytes, [](float v) { return v; });
    } else if (entry.dtype == "F16") {
      tensor.floats = Values<uint16_t, float>(entry.bytes, F16ToFloat);
    } else if (entry.dtype == "BF16") {
      tensor.floats = Values<uint16_t, float>(entry.bytes, Bf16ToFloat);
    } else if (entry.dtype == "I32") {
      tensor.ints = Ints<int32_t>(entry.bytes);
    } else if (entry.dtype == "U8") {
      tensor.ints = Ints<uint8_t>(entry.bytes);
    } else if (entry.dtype == "U16") {
      tensor.ints = Ints<uint16_t>(entry.bytes);
    } else if (entry.dtype == "U32") {
      tensor.ints = Ints<uint32_t>(entry.bytes);
    } else {
      Die(path, "tensor " + name + " has type " + entry.dtype);
    }
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace headway
