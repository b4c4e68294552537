#include "runtime/text/vocabulary.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "runtime/base/utf8.h"
#include "runtime/text/byte_alphabet.h"

namespace headway::text {
namespace {

constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr size_t kMaxBytes = size_t{1} << 30;

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::Create(const TokenizerSpec& spec) {
  if (spec.tokens.empty() || spec.tokens.size() > kMaxTokens) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer: ", spec.tokens.size(),
                                                   " tokens; there must be 1 to ", kMaxTokens));
  }
  Vocabulary vocabulary;
  const auto count = static_cast<int32_t>(spec.tokens.size());
  vocabulary.flags_.assign(count, 0);
  std::vector<const AddedToken*> added(count, nullptr);
  for (const AddedToken& token : spec.added_tokens) {
    if (token.id < 0 || token.id >= count) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer: added token ", Quoted(token.text),
                                                     " has id ", token.id, ", not below ", count));
    }
    added[token.id] = &token;
    vocabulary.flags_[token.id] = token.special ? kAdded | kSpecial : kAdded;
  }
  vocabulary.offsets_.reserve(count + 1);
  vocabulary.offsets_.push_back(0);
  for (int32_t id = 0; id < count; ++id) {
    // Where a token is not written in the byte alphabet it can only be meant as it stands.
    std::optional<std::string> bytes = BytesFromAlphabet(spec.tokens[id]);
    if (bytes && !bytes->empty() && (vocabulary.flags_[id] & kSpecial) == 0) {
      vocabulary.ids_.try_emplace(*bytes, id);
    }
    vocabulary.bytes_ += added[id] != nullptr ? added[id]->text : bytes ? *bytes : spec.tokens[id];
    if (vocabulary.bytes_.size() > kMaxBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer: tokens of more than ", kMaxBytes, " bytes in all"));
    }
    vocabulary.offsets_.push_back(static_cast<uint32_t>(vocabulary.bytes_.size()));
    vocabulary.longest_ =
        std::max(vocabulary.longest_, static_cast<int64_t>(vocabulary.bytes(id).size()));
  }
  return vocabulary;
}

std::string_view Vocabulary::bytes(int32_t id) const {
  if (!InRange(id)) return {};
  return std::string_view(bytes_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
}

int32_t Vocabulary::Find(std::string_view bytes) const {
  const auto it = ids_.find(absl::string_view(bytes.data(), bytes.size()));
  return it == ids_.end() ? -1 : it->second;
}

}  // namespace headway::text
