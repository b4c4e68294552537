#ifndef HEADWAY_RUNTIME_TEXT_UTF8_H_
#define HEADWAY_RUNTIME_TEXT_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace headway::text {

// Bytes of the character that starts with `lead`, in valid UTF-8.
inline size_t Utf8Length(char lead) {
  const auto b = static_cast<unsigned char>(lead);
  return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

// The code point at `text[*offset]` of valid UTF-8; moves *offset behind it.
char32_t NextCodePoint(std::string_view text, size_t* offset);

void AppendUtf8(char32_t code_point, std::string* out);

// Unicode's property White_Space: U+0085 and U+00A0 among them; U+001C to U+001F, U+180E, U+200B
// and U+FEFF not.
bool IsWhiteSpace(char32_t code_point);

// Turns bytes that come in any grouping into text. Never emits a part of a character. A sequence
// that turns out to be invalid becomes one U+FFFD for each maximal subpart (Unicode standard,
// section 3.9), whatever the grouping.
class Utf8Stream {
 public:
  // Appends to *out what `bytes` settle; an incomplete character at the end waits.
  void Feed(std::string_view bytes, std::string* out);
  // Appends U+FFFD when an incomplete character waits; starts anew.
  void Finish(std::string* out);

 private:
  char waiting_[4] = {};
  int seen_ = 0;                            // bytes in waiting_
  int needed_ = 0;                          // length of the character that waiting_ begins; 0: none
  unsigned char low_ = 0x80, high_ = 0xbf;  // what the next byte may be
};

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_UTF8_H_
