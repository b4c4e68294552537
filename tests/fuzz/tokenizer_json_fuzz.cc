// A Hugging Face tokenizer. The input: tokenizer.json, NUL, tokenizer_config.json, NUL, a text to
// encode.
#include "runtime/text/tokenizer_json.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/use_tokenizer.h"

namespace headway::fuzz {
namespace {

void Read(std::string_view tokenizer, std::string_view config, std::string_view text) {
  if (!config.empty()) {
    const auto source = text::ChatTemplateFromConfig(config);
    if (!source.ok()) CheckError(source.status());
  }
  const absl::StatusOr<text::TokenizerSpec> spec = text::ParseTokenizerJson(tokenizer, config);
  if (!spec.ok()) return CheckError(spec.status());
  UseTokenizer(*spec, text);
}

}  // namespace
}  // namespace headway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parts = headway::fuzz::Parts(data, size, 3);
  headway::fuzz::Read(parts[0], parts[1], parts[2]);
  return 0;
}
