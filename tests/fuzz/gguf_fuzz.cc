// A GGUF file: the container, every key in every type, every tensor to its last byte.
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/gguf_file.h"
#include "runtime/checkpoint/gguf_metadata.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/use_checkpoint.h"

namespace headway::fuzz {
namespace {

// On the input itself, behind whose end ASan sees every access.
void Parse(std::span<const std::byte> bytes) {
  const absl::StatusOr<GgufContents> contents = ParseGguf(bytes);
  if (!contents.ok()) return CheckError(contents.status());
  Touch(contents->header);
  for (const auto& [name, tensor] : contents->tensors) Touch(tensor.bytes);
  const GgufMetadata metadata("input", contents->keys);
  for (const auto& [key, value] : contents->keys) {
    Touch(value.bytes);
    UseKey(metadata, key);
  }
}

// As it is opened by everybody.
void Open(std::span<const std::byte> bytes) {
  static InputFile file;
  const auto checkpoint = Checkpoint::Open(file.Write(bytes));
  if (!checkpoint.ok()) return CheckError(checkpoint.status());
  UseTensors(**checkpoint);
}

}  // namespace
}  // namespace headway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  headway::fuzz::Parse(bytes);
  headway::fuzz::Open(bytes);
  return 0;
}
