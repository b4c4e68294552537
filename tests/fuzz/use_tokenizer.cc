#include "tests/fuzz/use_tokenizer.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/check.h"
#include "runtime/base/utf8.h"
#include "runtime/text/detokenizer.h"
#include "runtime/text/tokenizer.h"
#include "tests/fuzz/fuzz_input.h"

namespace headway::fuzz {
namespace {

using text::TextPiece;
using text::Tokenizer;
using Ids = std::vector<int32_t>;

void CheckDecoding(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  const absl::StatusOr<std::string> whole = tokenizer.Decode(ids, skip_special);
  HEADWAY_CHECK(whole.ok());
  HEADWAY_CHECK(IsUtf8(*whole));
  text::Detokenizer stream(&tokenizer, skip_special);
  std::string pieces;
  for (const int32_t id : ids) {
    const std::string piece = stream.Feed(id);
    HEADWAY_CHECK(IsUtf8(piece));
    pieces += piece;
  }
  pieces += stream.Finish();
  HEADWAY_CHECK(pieces == *whole);
}

}  // namespace

void UseTokenizer(const text::TokenizerSpec& spec, std::string_view text) {
  const absl::StatusOr<std::unique_ptr<Tokenizer>> created = Tokenizer::Create(spec);
  if (!created.ok()) return CheckError(created.status());
  const Tokenizer& tokenizer = **created;

  const absl::StatusOr<Ids> typed = tokenizer.Encode(text, Tokenizer::Mode::kUserText);
  const size_t half = text.size() / 2;
  const std::vector<TextPiece> halves = {{.text = std::string(text.substr(0, half))},
                                         {.text = std::string(text.substr(half))}};
  const absl::StatusOr<Ids> cut = tokenizer.EncodePieces(halves);
  HEADWAY_CHECK(cut.ok() == typed.ok());
  if (typed.ok()) {
    HEADWAY_CHECK(*cut == *typed);
    for (const int32_t id : *typed) HEADWAY_CHECK(!tokenizer.IsSpecial(id));
    CheckDecoding(tokenizer, *typed, /*skip_special=*/false);
  } else {
    CheckError(typed.status());
  }

  const absl::StatusOr<Ids> trusted = tokenizer.Encode(text, Tokenizer::Mode::kSpecialTokens);
  if (trusted.ok()) {
    CheckDecoding(tokenizer, *trusted, /*skip_special=*/false);
    CheckDecoding(tokenizer, *trusted, /*skip_special=*/true);
  } else {
    CheckError(trusted.status());
  }
  // The template's own text around a user's.
  const std::vector<TextPiece> mixed = {
      {.text = halves[0].text, .is_trusted = true}, halves[1], {.text = "x", .is_trusted = true}};
  if (const auto ids = tokenizer.EncodePieces(mixed); !ids.ok()) CheckError(ids.status());
}

}  // namespace headway::fuzz
