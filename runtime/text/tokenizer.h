#ifndef HEADWAY_RUNTIME_TEXT_TOKENIZER_H_
#define HEADWAY_RUNTIME_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/text/added_tokens.h"
#include "runtime/text/bpe.h"
#include "runtime/text/pretokenizer.h"
#include "runtime/text/text_piece.h"
#include "runtime/text/tokenizer_spec.h"
#include "runtime/text/vocabulary.h"

namespace headway::text {

// Text to token ids and back, by byte-level BPE. Immutable after Create and thread-safe.
//
// Not lossless for every vocabulary: bytes for which it has no token (SmolLM2's lacks 21, two of
// which occur in valid characters) are left out, as in the libraries such models were trained with.
class Tokenizer {
 public:
  // InvalidArgument names what is wrong in `spec`: a pattern, a merge, an id out of range.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const TokenizerSpec& spec);

  enum class Mode {
    kSpecialTokens,  // added tokens are recognised
    kUserText,       // none is, control token or not; see AddedTokens for what is no such token
  };

  // The ids of `text`; nothing is added (see add_bos()). InvalidArgument with the byte's offset
  // when `text` is not UTF-8; ResourceExhausted when a pattern gives up on hostile text.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, Mode mode) const;

  // The ids of the concatenated pieces. Ordinary text is tokenised as if there were no borders
  // between pieces; an added token is recognised only where all of it is trusted. Errors as above,
  // offsets counting from the start of the first piece.
  absl::StatusOr<std::vector<int32_t>> EncodePieces(std::span<const TextPiece> pieces) const;

  // The text of `ids`; bytes that form no character become U+FFFD. InvalidArgument names an id that
  // is out of range.
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids, bool skip_special) const;

  // A text of more bytes than this has more than `tokens` tokens: what cannot fit need not be
  // tokenised to say so. Bytes that are left out for want of a token count as if they had one.
  int64_t MostTextBytes(int64_t tokens) const;

  // Ids are in [0, vocabulary_size()); some may stand for nothing. A model's output may be wider.
  int32_t vocabulary_size() const { return vocabulary_.size(); }
  // What `id` adds to the text: bytes, not always whole characters. Empty for an id that stands for
  // nothing or is out of range. Valid as long as this tokenizer.
  std::string_view TokenBytes(int32_t id) const { return vocabulary_.bytes(id); }
  // Whether `id` is a control token, to be left out of text.
  bool IsSpecial(int32_t id) const { return vocabulary_.is_special(id); }
  // The id of the added token that is written `token`.
  std::optional<int32_t> FindAddedToken(std::string_view token) const;

  // Whether a plain prompt (not one from a chat template) starts with bos_id().
  bool add_bos() const { return add_bos_; }
  std::optional<int32_t> bos_id() const { return bos_id_; }
  std::optional<int32_t> eos_id() const { return eos_id_; }
  // Tokens that end an answer, in ascending order, each once.
  const std::vector<int32_t>& end_ids() const { return end_ids_; }

 private:
  Tokenizer(Vocabulary vocabulary, AddedTokens added_tokens, Pretokenizer pretokenizer, Bpe bpe);
  absl::StatusOr<std::vector<int32_t>> EncodeRanges(std::string_view text,
                                                    std::span<const TextRange> trusted) const;

  Vocabulary vocabulary_;
  AddedTokens added_tokens_;
  Pretokenizer pretokenizer_;
  Bpe bpe_;
  bool normalize_nfc_ = false;
  bool ignore_merges_ = false;
  bool add_bos_ = false;
  std::optional<int32_t> bos_id_;
  std::optional<int32_t> eos_id_;
  std::vector<int32_t> end_ids_;
};

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_TOKENIZER_H_
