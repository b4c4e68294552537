#include "runtime/router/output_text.h"

#include <utility>

namespace headway {

OutputText::OutputText(const text::Tokenizer* tokenizer, bool include_control_tokens,
                       text::StopMatcher stops, int min_tokens)
    : stops_(std::move(stops)), min_tokens_(min_tokens) {
  if (tokenizer != nullptr) detokenizer_.emplace(tokenizer, !include_control_tokens);
}

std::string OutputText::Take(int32_t id) {
  ++tokens_;
  if (!detokenizer_) return "";
  std::string text = detokenizer_->Feed(id);
  return tokens_ < min_tokens_ ? text : stops_.Feed(text);
}

std::string OutputText::Finish() {
  if (!detokenizer_) return "";
  std::string text = stops_.Feed(detokenizer_->Finish());
  return text + stops_.Finish();
}

}  // namespace headway
