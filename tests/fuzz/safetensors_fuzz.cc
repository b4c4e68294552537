// A safetensors file.
#include "runtime/base/check.h"
#include "runtime/base/utf8.h"
#include "runtime/checkpoint/safetensors_file.h"
#include "tests/fuzz/fuzz_input.h"

namespace headway::fuzz {
namespace {

void Parse(std::span<const std::byte> file) {
  const absl::StatusOr<SafetensorsEntries> entries = ParseSafetensors(file);
  if (!entries.ok()) return CheckError(entries.status());
  size_t bytes = 0;
  for (const auto& [name, entry] : *entries) {
    HEADWAY_CHECK(IsUtf8(name));
    for (const int64_t extent : entry.shape) HEADWAY_CHECK(extent >= 0);
    Touch(entry.bytes);
    bytes += entry.bytes.size();
  }
  HEADWAY_CHECK(bytes < file.size());  // without overlap, beside a header
}

}  // namespace
}  // namespace headway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headway::fuzz::Parse(std::as_bytes(std::span(data, size)));
  return 0;
}
