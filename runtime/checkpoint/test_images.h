#ifndef HEADWAY_RUNTIME_CHECKPOINT_TEST_IMAGES_H_
#define HEADWAY_RUNTIME_CHECKPOINT_TEST_IMAGES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/gguf_file.h"

namespace headway {

// Images of small files for tests, right or wrong in any field.

// The bytes of `value`, little endian.
template <class T>
std::string Raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// A string as GGUF stores it: 64-bit length, then the text.
std::string GgufString(std::string_view text);

// A GGUF file piece by piece. Counts follow what was added, unless set.
struct GgufImage {
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t alignment = 32;  // of the padding before the data; the key is the caller's affair
  std::string keys;
  std::string tensors;
  std::string data;
  uint64_t key_count = 0;
  uint64_t tensor_count = 0;

  GgufImage& Key(std::string_view name, GgufType type, std::string_view value);
  GgufImage& U32(std::string_view name, uint32_t value);
  GgufImage& Text(std::string_view name, std::string_view value);
  // `elements` are `count` values of `type`, as stored.
  GgufImage& Array(std::string_view name, GgufType type, uint64_t count, std::string_view elements);
  // `dimensions` innermost first, as stored.
  GgufImage& Tensor(std::string_view name, const std::vector<uint64_t>& dimensions, uint32_t type,
                    uint64_t offset);
  std::string Build() const;
};

// A valid file with a key of every type, among them nested lists, and tensors of three types, the
// last of which ends with the file.
GgufImage SmallGguf();

// A safetensors file: the length of `header`, `header`, `data`.
std::string SafetensorsImage(std::string_view header, std::string_view data);

// Writes `contents` to `folder`/`name` and returns that path.
std::string WriteFile(const std::string& folder, std::string_view name, std::string_view contents);

// A new empty folder of this test.
std::string NewFolder();

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CHECKPOINT_TEST_IMAGES_H_
