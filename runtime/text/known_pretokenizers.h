#ifndef HEADWAY_RUNTIME_TEXT_KNOWN_PRETOKENIZERS_H_
#define HEADWAY_RUNTIME_TEXT_KNOWN_PRETOKENIZERS_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/text/tokenizer_spec.h"

namespace headway::text {

// GPT-2's pattern, which tokenizer.json means by ByteLevel with use_regex.
extern const char kGpt2Pattern[];

// What a GGUF file names in tokenizer.ggml.pre instead of writing it down.
struct KnownPretokenizer {
  std::vector<SplitStep> splits;
  bool normalize_nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

// Unimplemented naming `name` when it is not known.
absl::StatusOr<KnownPretokenizer> FindPretokenizer(std::string_view name);

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_KNOWN_PRETOKENIZERS_H_
