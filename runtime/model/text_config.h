#ifndef HEADWAY_RUNTIME_MODEL_TEXT_CONFIG_H_
#define HEADWAY_RUNTIME_MODEL_TEXT_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/text/tokenizer_spec.h"

namespace headway {

// What a checkpoint says about text, as the plain data that runtime/text takes.

// The tokenizer: of GGUF the keys tokenizer.ggml.*, of a folder tokenizer.json and
// tokenizer_config.json. NotFound when the checkpoint has none; Unimplemented, naming what it is,
// for anything but byte-level BPE with a known pre-tokenizer; InvalidArgument, naming file or key,
// for what is malformed.
absl::StatusOr<text::TokenizerSpec> ReadTokenizerSpec(const Checkpoint& checkpoint);

// InvalidArgument, naming the highest token and both numbers, when the tokenizer has tokens that a
// model of `vocabulary` tokens does not know. One that has fewer than the model fits.
absl::Status CheckTokenizerFits(const text::TokenizerSpec& spec, int vocabulary);

// The source of the chat template: of GGUF tokenizer.chat_template, of a folder
// chat_template.jinja or else tokenizer_config.json. NotFound when the checkpoint has none.
absl::StatusOr<std::string> ReadChatTemplate(const Checkpoint& checkpoint);

// The tokens that end an answer as the checkpoint's configuration names them, in ascending order,
// each once; empty when none is named. For a checkpoint without a tokenizer; where there is one,
// TokenizerSpec::end_ids has these and the tokenizer's own.
absl::StatusOr<std::vector<int32_t>> ReadEndTokenIds(const Checkpoint& checkpoint);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_TEXT_CONFIG_H_
