#include "runtime/text/detokenizer.h"

#include "runtime/text/tokenizer.h"

namespace headway::text {

std::string Detokenizer::Feed(int32_t id) {
  std::string text;
  if (skip_special_ && tokenizer_->IsSpecial(id)) return text;
  stream_.Feed(tokenizer_->TokenBytes(id), &text);
  return text;
}

std::string Detokenizer::Finish() {
  std::string text;
  stream_.Finish(&text);
  return text;
}

}  // namespace headway::text
