#ifndef HEADWAY_RUNTIME_ROUTER_OUTPUT_TEXT_H_
#define HEADWAY_RUNTIME_ROUTER_OUTPUT_TEXT_H_

#include <optional>
#include <string>

#include "runtime/text/detokenizer.h"
#include "runtime/text/stop_strings.h"

namespace headway {

// One request's tokens to the text that its client gets: whole characters, ended at a stop string,
// what may still become one held back. One thread.
class OutputText {
 public:
  // `tokenizer`: null where the checkpoint has none; then there is never any text. It outlives this
  // object. Stop strings are looked for from the text of the `min_tokens`-th token on.
  OutputText(const text::Tokenizer* tokenizer, bool include_control_tokens, text::StopMatcher stops,
             int min_tokens);

  // The text that one more token lets out. Not after the end.
  std::string Take(int32_t id);
  // What was held back, when the tokens end without a stop string; or the last of the text before
  // one. Once.
  std::string Finish();
  // A stop string has ended the text.
  bool stopped() const { return stops_.matched(); }

 private:
  std::optional<text::Detokenizer> detokenizer_;
  text::StopMatcher stops_;
  const int min_tokens_;
  int tokens_ = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_ROUTER_OUTPUT_TEXT_H_
