// What a GGUF file says about text. The input: its keys as JSON ("tokenizer.ggml.model" as an
// object in an object), which an engine changes with more sense than bytes behind lengths; NUL; a
// text to encode.
#include "runtime/base/check.h"
#include "runtime/checkpoint/json_metadata.h"
#include "runtime/model/text_config.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/use_tokenizer.h"

namespace headway::fuzz {
namespace {

// A GGUF file without tensors.
class KeysOnly : public Checkpoint {
 public:
  explicit KeysOnly(const Metadata& metadata) : metadata_(metadata) {}

  Kind kind() const override { return Kind::kGguf; }
  const Metadata& metadata() const override { return metadata_; }
  std::vector<std::string> TensorNames() const override { return {}; }
  bool Has(std::string_view) const override { return false; }
  absl::StatusOr<TensorRef> Tensor(std::string_view) const override {
    return absl::NotFoundError("no tensors");
  }
  absl::StatusOr<std::string> SideFile(std::string_view) const override {
    return absl::NotFoundError("no files");
  }
  uint64_t digest() const override { return 0; }
  int64_t file_bytes() const override { return 0; }

 private:
  const Metadata& metadata_;
};

void Read(std::string_view keys, std::string_view text) {
  const auto metadata = JsonMetadata::Parse("input", keys);
  if (!metadata.ok()) return CheckError(metadata.status());
  const KeysOnly checkpoint(**metadata);
  if (const auto source = ReadChatTemplate(checkpoint); !source.ok()) CheckError(source.status());
  if (const auto ids = ReadEndTokenIds(checkpoint); !ids.ok()) CheckError(ids.status());
  const absl::StatusOr<text::TokenizerSpec> spec = ReadTokenizerSpec(checkpoint);
  if (!spec.ok()) return CheckError(spec.status());
  if (const auto fits = CheckTokenizerFits(*spec, /*vocabulary=*/8); !fits.ok()) CheckError(fits);
  UseTokenizer(*spec, text);
}

}  // namespace
}  // namespace headway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parts = headway::fuzz::Parts(data, size, 2);
  headway::fuzz::Read(parts[0], parts[1]);
  return 0;
}
