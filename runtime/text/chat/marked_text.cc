#include "runtime/text/chat/marked_text.h"

#include <algorithm>

namespace headway::text::chat {

bool MarkedText::trusted_at(size_t offset) const {
  const auto flips = std::upper_bound(flips_.begin(), flips_.end(), offset) - flips_.begin();
  return first_trusted_ == (flips % 2 == 0);
}

void MarkedText::Append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    first_trusted_ = trusted;
  } else if ((first_trusted_ == (flips_.size() % 2 == 0)) != trusted) {
    flips_.push_back(bytes_.size());
  }
  bytes_.append(bytes);
}

void MarkedText::AppendRange(const MarkedText& other, size_t begin, size_t end) {
  if (begin >= end) return;
  const std::string_view bytes = other.bytes_;
  auto flip = std::upper_bound(other.flips_.begin(), other.flips_.end(), begin);
  bool trusted = other.trusted_at(begin);
  while (begin < end) {
    const size_t until = flip == other.flips_.end() ? end : std::min(*flip++, end);
    Append(bytes.substr(begin, until - begin), trusted);
    begin = until;
    trusted = !trusted;
  }
}

MarkedText MarkedText::Range(size_t begin, size_t end) const {
  MarkedText range;
  range.AppendRange(*this, begin, end);
  return range;
}

std::vector<TextPiece> MarkedText::Pieces() const {
  std::vector<TextPiece> pieces;
  size_t begin = 0;
  bool trusted = first_trusted_;
  for (size_t i = 0; i <= flips_.size() && begin < size(); ++i) {
    const size_t end = i < flips_.size() ? flips_[i] : size();
    pieces.push_back({bytes_.substr(begin, end - begin), trusted});
    begin = end;
    trusted = !trusted;
  }
  return pieces;
}

}  // namespace headway::text::chat
