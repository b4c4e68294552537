#ifndef HEADWAY_TESTS_FUZZ_USE_TOKENIZER_H_
#define HEADWAY_TESTS_FUZZ_USE_TOKENIZER_H_

#include <string_view>

#include "runtime/text/tokenizer_spec.h"

namespace headway::fuzz {

// Makes the tokenizer, if it can be made, and takes `text` to ids and back in every way. Checks
// what holds for every tokenizer: no text of a user becomes a control token, borders of pieces mean
// nothing within it, and the pieces of a stream are the whole text.
void UseTokenizer(const text::TokenizerSpec& spec, std::string_view text);

}  // namespace headway::fuzz

#endif  // HEADWAY_TESTS_FUZZ_USE_TOKENIZER_H_
