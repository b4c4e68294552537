#ifndef HEADWAY_RUNTIME_TEXT_TOKENIZER_JSON_H_
#define HEADWAY_RUNTIME_TEXT_TOKENIZER_JSON_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/text/tokenizer_spec.h"

namespace headway::text {

// Reads Hugging Face's tokenizer.json and tokenizer_config.json (empty: there is none). Of the
// configuration: bos_token, eos_token, add_bos_token (which, where present, overrules the
// post-processor). What a post-processor would put behind a text is not wanted before generation.
// InvalidArgument for a malformed file; Unimplemented, naming what it is, for anything but
// byte-level BPE and for steps that would cut text differently from what we know.
absl::StatusOr<TokenizerSpec> ParseTokenizerJson(std::string_view tokenizer_json,
                                                 std::string_view tokenizer_config_json);

// The chat template in tokenizer_config.json: the one there is, or the one named "default".
// NotFound when there is none.
absl::StatusOr<std::string> ChatTemplateFromConfig(std::string_view tokenizer_config_json);

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_TOKENIZER_JSON_H_
