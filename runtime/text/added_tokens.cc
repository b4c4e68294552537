#include "runtime/text/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/utf8.h"
#include "runtime/text/utf8.h"

namespace headway::text {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

// The last code point before `offset` > 0, and where it starts.
char32_t PreviousCodePoint(std::string_view text, size_t offset, size_t* start) {
  *start = offset - 1;
  while ((static_cast<unsigned char>(text[*start]) & 0xc0) == 0x80) --*start;
  size_t end = *start;
  return NextCodePoint(text, &end);
}

bool IsWordCharacter(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

bool StandsAlone(std::string_view text, size_t begin, size_t end) {
  size_t unused = 0;
  if (begin > 0 && IsWordCharacter(PreviousCodePoint(text, begin, &unused))) return false;
  if (end < text.size()) {
    size_t next = end;
    if (IsWordCharacter(NextCodePoint(text, &next))) return false;
  }
  return true;
}

}  // namespace

bool AddedTokens::IsOrdinary(const AddedToken& token) {
  if (token.special) return false;
  if (Utf8Length(token.text[0]) == token.text.size()) return true;
  for (size_t i = 0; i < token.text.size();) {
    if (!IsWhiteSpace(NextCodePoint(token.text, &i))) return false;
  }
  return true;
}

absl::StatusOr<AddedTokens> AddedTokens::Create(const std::vector<AddedToken>& tokens) {
  AddedTokens added;
  added.tokens_ = tokens;
  added.nodes_.emplace_back();
  size_t total = 0;
  for (size_t t = 0; t < tokens.size(); ++t) {
    const std::string& text = tokens[t].text;
    if (text.empty() || FindInvalidUtf8(text)) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer: added token ", tokens[t].id,
                                                     " is ", text.empty() ? "empty" : "not UTF-8"));
    }
    total += text.size();
    if (total > kMaxBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer: added tokens of more than ", kMaxBytes, " bytes in all"));
    }
    uint32_t node = 0;
    for (const char c : text) {
      const uint64_t edge = uint64_t{node} << 8 | static_cast<unsigned char>(c);
      const auto [it, is_new] =
          added.edges_.try_emplace(edge, static_cast<uint32_t>(added.nodes_.size()));
      if (is_new) added.nodes_.emplace_back();
      node = it->second;
    }
    if (added.nodes_[node].token < 0) added.nodes_[node].token = static_cast<int32_t>(t);
    added.starts_[static_cast<unsigned char>(text[0])] = true;
  }
  return added;
}

const AddedToken* AddedTokens::Match(std::string_view text, size_t begin,
                                     size_t trusted_end) const {
  const AddedToken* longest = nullptr;
  uint32_t node = 0;
  for (size_t end = begin; end < text.size();) {
    const auto it = edges_.find(uint64_t{node} << 8 | static_cast<unsigned char>(text[end]));
    if (it == edges_.end()) break;
    node = it->second;
    ++end;
    if (nodes_[node].token < 0) continue;
    const AddedToken& token = tokens_[nodes_[node].token];
    if (end > trusted_end && !IsOrdinary(token)) continue;
    if (token.single_word && !StandsAlone(text, begin, end)) continue;
    longest = &token;
  }
  return longest;
}

std::vector<AddedTokens::Segment> AddedTokens::Split(std::string_view text,
                                                     std::span<const TextRange> trusted) const {
  std::vector<Segment> segments;
  size_t done = 0;  // everything before is in a segment
  size_t range = 0;
  for (size_t i = 0; i < text.size();) {
    if (!starts_[static_cast<unsigned char>(text[i])]) {
      ++i;
      continue;
    }
    while (range < trusted.size() && trusted[range].end <= i) ++range;
    const bool is_trusted = range < trusted.size() && trusted[range].begin <= i;
    const AddedToken* token = Match(text, i, is_trusted ? trusted[range].end : i);
    if (token == nullptr) {
      ++i;
      continue;
    }
    size_t begin = i;
    size_t end = i + token->text.size();
    if (token->lstrip) {
      size_t previous = 0;
      while (begin > done && IsWhiteSpace(PreviousCodePoint(text, begin, &previous))) {
        begin = previous;
      }
    }
    if (token->rstrip) {
      for (size_t next = end; next < text.size() && IsWhiteSpace(NextCodePoint(text, &next));) {
        end = next;
      }
    }
    if (begin > done) segments.push_back({{done, begin}});
    segments.push_back({{begin, end}, token->id});
    done = i = end;
  }
  if (done < text.size()) segments.push_back({{done, text.size()}});
  return segments;
}

std::optional<int32_t> AddedTokens::Find(std::string_view token) const {
  for (const AddedToken& added : tokens_) {
    if (added.text == token) return added.id;
  }
  return std::nullopt;
}

}  // namespace headway::text
