#ifndef HEADWAY_RUNTIME_TEXT_DETOKENIZER_H_
#define HEADWAY_RUNTIME_TEXT_DETOKENIZER_H_

#include <cstdint>
#include <string>

#include "runtime/text/utf8.h"

namespace headway::text {

class Tokenizer;

// Token ids to text, one at a time. The pieces put together are the text of all tokens; no piece
// ends inside a character. One sequence each; not thread-safe.
class Detokenizer {
 public:
  // `tokenizer` is borrowed. skip_special: control tokens add nothing and do not disturb a
  // character that is waiting for its last bytes.
  Detokenizer(const Tokenizer* tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // The text that `id` settles, possibly none. Ids that stand for nothing add nothing.
  std::string Feed(int32_t id);
  // U+FFFD if an incomplete character is still waiting, else nothing. Call once, at the end.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  Utf8Stream stream_;
};

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_DETOKENIZER_H_
