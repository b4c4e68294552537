#ifndef HEADWAY_RUNTIME_TEXT_TOKENIZER_SPEC_H_
#define HEADWAY_RUNTIME_TEXT_TOKENIZER_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headway::text {

// A token that is found in text as it is written, before anything is split or merged.
struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool special = true;  // a control token: left out of decoded text
  // What the match takes with it: white space before it, white space behind it.
  bool lstrip = false;
  bool rstrip = false;
  bool single_word = false;  // only where no letter, digit or '_' touches it
};

// One step of cutting text into the pieces that BPE works on. The matches of `pattern` and the text
// between them become pieces; the next step cuts each of those again.
struct SplitStep {
  // In the syntax of tokenizer.json (Oniguruma with Unicode classes); see pretokenizer.h.
  std::string pattern;
  bool drop_gaps = false;  // drop the text between the matches
};

// Everything about a byte-level BPE tokenizer, as plain data. Tokenizer::Create checks it.
struct TokenizerSpec {
  // Index = id, written in the byte alphabet; added tokens as plain text. Empty: no such token.
  std::vector<std::string> tokens;
  // "left right" in the byte alphabet, most urgent first.
  std::vector<std::string> merges;
  std::vector<AddedToken> added_tokens;
  std::vector<SplitStep> splits;
  bool normalize_nfc = false;
  // A piece that is a token as a whole is taken without merging.
  bool ignore_merges = false;
  // Whether plain prompts start with `bos_id`. A chat template writes its own.
  bool add_bos = false;
  std::optional<int32_t> bos_id;
  // The token whose text chat templates know as eos_token.
  std::optional<int32_t> eos_id;
  // Tokens that end an answer; `eos_id` among them.
  std::vector<int32_t> end_ids;
};

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_TOKENIZER_SPEC_H_
