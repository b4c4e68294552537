#ifndef HEADWAY_RUNTIME_ROUTER_TEST_TEXT_H_
#define HEADWAY_RUNTIME_ROUTER_TEST_TEXT_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/router/prompt_encoder.h"

namespace headway {

// For tests: a tokenizer whose token b is byte b; then come these control tokens.
inline constexpr int32_t kTestStart = 256;  // "<s>", before plain prompts
inline constexpr int32_t kTestTurn = 257;   // "<|turn|>"
inline constexpr int32_t kTestEnd = 258;    // "<|end|>", ends an answer
inline constexpr int kTestVocabulary = 259;

std::unique_ptr<text::Tokenizer> TestTokenizer();

// With the tokenizer, and a chat template that writes each message as
// <|turn|>ROLE:CONTENT<|end|> and opens the answer with <|turn|>assistant:.
std::unique_ptr<PromptEncoder> TestEncoder();

// The ids of `text`'s bytes.
std::vector<int32_t> TestIds(std::string_view text);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_ROUTER_TEST_TEXT_H_
