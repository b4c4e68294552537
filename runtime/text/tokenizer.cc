#include "runtime/text/tokenizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "runtime/base/utf8.h"
#include "runtime/text/detokenizer.h"
#include "runtime/text/nfc.h"

namespace headway::text {
namespace {

absl::Status CheckId(const char* name, int32_t id, int32_t size) {
  if (id >= 0 && id < size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer: ", name, " token id ", id, " is not in [0, ", size, ")"));
}

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary, AddedTokens added_tokens, Pretokenizer pretokenizer,
                     Bpe bpe)
    : vocabulary_(std::move(vocabulary)),
      added_tokens_(std::move(added_tokens)),
      pretokenizer_(std::move(pretokenizer)),
      bpe_(std::move(bpe)) {}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(const TokenizerSpec& spec) {
  HEADWAY_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Create(spec));
  HEADWAY_ASSIGN_OR_RETURN(AddedTokens added_tokens, AddedTokens::Create(spec.added_tokens));
  HEADWAY_ASSIGN_OR_RETURN(Pretokenizer pretokenizer, Pretokenizer::Create(spec.splits));
  HEADWAY_ASSIGN_OR_RETURN(Bpe bpe, Bpe::Create(vocabulary, spec.merges));
  const int32_t size = vocabulary.size();
  if (spec.bos_id) HEADWAY_RETURN_IF_ERROR(CheckId("bos", *spec.bos_id, size));
  if (spec.eos_id) HEADWAY_RETURN_IF_ERROR(CheckId("eos", *spec.eos_id, size));
  for (const int32_t id : spec.end_ids) HEADWAY_RETURN_IF_ERROR(CheckId("end", id, size));
  if (spec.add_bos && !spec.bos_id) {
    return absl::InvalidArgumentError("tokenizer: prompts shall start with bos, but there is none");
  }
  auto tokenizer = std::unique_ptr<Tokenizer>(new Tokenizer(
      std::move(vocabulary), std::move(added_tokens), std::move(pretokenizer), std::move(bpe)));
  tokenizer->normalize_nfc_ = spec.normalize_nfc;
  tokenizer->ignore_merges_ = spec.ignore_merges;
  tokenizer->add_bos_ = spec.add_bos;
  tokenizer->bos_id_ = spec.bos_id;
  tokenizer->eos_id_ = spec.eos_id;
  tokenizer->end_ids_ = spec.end_ids;
  if (spec.eos_id) tokenizer->end_ids_.push_back(*spec.eos_id);
  std::sort(tokenizer->end_ids_.begin(), tokenizer->end_ids_.end());
  tokenizer->end_ids_.erase(std::unique(tokenizer->end_ids_.begin(), tokenizer->end_ids_.end()),
                            tokenizer->end_ids_.end());
  return tokenizer;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, Mode mode) const {
  if (mode == Mode::kUserText) return EncodeRanges(text, {});
  const TextRange whole{0, text.size()};
  return EncodeRanges(text, {&whole, 1});
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodePieces(
    std::span<const TextPiece> pieces) const {
  std::string text;
  std::vector<TextRange> trusted;
  for (const TextPiece& piece : pieces) {
    const size_t begin = text.size();
    text += piece.text;
    if (!piece.is_trusted || piece.text.empty()) continue;
    if (!trusted.empty() && trusted.back().end == begin) {
      trusted.back().end = text.size();
    } else {
      trusted.push_back({begin, text.size()});
    }
  }
  return EncodeRanges(text, trusted);
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodeRanges(
    std::string_view text, std::span<const TextRange> trusted) const {
  if (const auto offset = FindInvalidUtf8(text)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tokenize: the text is not UTF-8 at byte %d (0x%02x)", *offset,
                        static_cast<unsigned char>(text[*offset])));
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 1);
  Bpe::Scratch scratch;
  std::vector<std::string_view> pieces;
  std::string normalized;
  for (const AddedTokens::Segment& segment : added_tokens_.Split(text, trusted)) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
      continue;
    }
    std::string_view part =
        text.substr(segment.range.begin, segment.range.end - segment.range.begin);
    if (normalize_nfc_) {
      normalized = NormalizeNfc(part);
      part = normalized;
    }
    pieces.clear();
    HEADWAY_RETURN_IF_ERROR(pretokenizer_.Split(part, &pieces));
    for (const std::string_view piece : pieces) {
      if (ignore_merges_) {
        const int32_t id = vocabulary_.Find(piece);
        if (id >= 0 && !vocabulary_.is_added(id)) {
          ids.push_back(id);
          continue;
        }
      }
      bpe_.Encode(piece, &scratch, &ids);
    }
  }
  return ids;
}

absl::StatusOr<std::string> Tokenizer::Decode(std::span<const int32_t> ids,
                                              bool skip_special) const {
  Detokenizer detokenizer(this, skip_special);
  std::string text;
  for (const int32_t id : ids) {
    HEADWAY_RETURN_IF_ERROR(CheckId("detokenize", id, vocabulary_size()));
    text += detokenizer.Feed(id);
  }
  text += detokenizer.Finish();
  return text;
}

int64_t Tokenizer::MostTextBytes(int64_t tokens) const {
  // Normalisation puts characters together, at most into a third of their bytes.
  const int64_t of_one = vocabulary_.longest() * (normalize_nfc_ ? 3 : 1);
  if (of_one == 0) return 0;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return tokens > kMost / of_one ? kMost : tokens * of_one;
}

std::optional<int32_t> Tokenizer::FindAddedToken(std::string_view token) const {
  return added_tokens_.Find(token);
}

}  // namespace headway::text
