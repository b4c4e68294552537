#include "runtime/router/test_text.h"

#include "runtime/base/check.h"
#include "runtime/text/byte_alphabet.h"

namespace headway {

std::unique_ptr<text::Tokenizer> TestTokenizer() {
  text::TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(text::BytesToAlphabet(std::string(1, static_cast<char>(byte))));
  }
  for (const char* token : {"<s>", "<|turn|>", "<|end|>"}) {
    spec.added_tokens.push_back(
        {.id = static_cast<int32_t>(spec.tokens.size()), .text = token, .special = true});
    spec.tokens.push_back(token);
  }
  spec.add_bos = true;
  spec.bos_id = kTestStart;
  spec.eos_id = kTestEnd;
  spec.end_ids = {kTestEnd};
  absl::StatusOr<std::unique_ptr<text::Tokenizer>> tokenizer = text::Tokenizer::Create(spec);
  HEADWAY_CHECK(tokenizer.ok());
  return *std::move(tokenizer);
}

std::unique_ptr<PromptEncoder> TestEncoder() {
  constexpr char kTemplate[] =
      "{% for m in messages %}{{ '<|turn|>' + m.role + ':' + m.content + '<|end|>' }}{% endfor %}"
      "<|turn|>assistant:";
  auto chat_template = text::ChatTemplate::Parse(kTemplate, {});
  HEADWAY_CHECK(chat_template.ok());
  return std::make_unique<PromptEncoder>(TestTokenizer(), *std::move(chat_template));
}

std::vector<int32_t> TestIds(std::string_view text) {
  std::vector<int32_t> ids;
  for (unsigned char byte : text) ids.push_back(byte);
  return ids;
}

}  // namespace headway
