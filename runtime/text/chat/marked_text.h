#ifndef HEADWAY_RUNTIME_TEXT_CHAT_MARKED_TEXT_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_MARKED_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/text_piece.h"

namespace headway::text::chat {

// UTF-8 text in which every byte is marked: trusted (written by the template) or not (it came with
// the request). All operations keep the marks.
class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string_view bytes, bool trusted) { Append(bytes, trusted); }

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // Memory beyond sizeof(MarkedText).
  size_t heap_bytes() const { return bytes_.size() + flips_.size() * sizeof(size_t); }
  // Of the byte at `offset` < size().
  bool trusted_at(size_t offset) const;
  // Whether all of it is trusted; true for the empty text.
  bool all_trusted() const { return flips_.empty() && (first_trusted_ || empty()); }

  void Append(std::string_view bytes, bool trusted);
  void Append(const MarkedText& other) { AppendRange(other, 0, other.size()); }
  // Bytes [begin, end) of `other`.
  void AppendRange(const MarkedText& other, size_t begin, size_t end);
  MarkedText Range(size_t begin, size_t end) const;

  // One piece for each run of equal marks.
  std::vector<TextPiece> Pieces() const;

 private:
  std::string bytes_;
  bool first_trusted_ = true;
  std::vector<size_t> flips_;  // ascending offsets in (0, size) where the mark changes
};

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_MARKED_TEXT_H_
