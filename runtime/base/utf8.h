#ifndef HEADWAY_RUNTIME_BASE_UTF8_H_
#define HEADWAY_RUNTIME_BASE_UTF8_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace headway {

// What may follow the first byte of a character (Unicode 15, table 3-7): how many bytes it has in
// all, and the range of its second one, which excludes overlong forms, surrogates, and what lies
// above U+10FFFF. Those after it are 0x80 to 0xbf. Length 0: no character starts with this byte.
struct Utf8Lead {
  int length;
  unsigned char low, high;
};
Utf8Lead LeadOf(unsigned char byte);

// Offset of the first byte that cannot belong to well-formed UTF-8 (for a truncated character: of
// its first byte), or nullopt when all of `text` is well-formed.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

inline bool IsUtf8(std::string_view text) { return !FindInvalidUtf8(text).has_value(); }

// `text` from outside, fit for an error message: in single quotes, control and malformed bytes as
// \xNN, cut after 80 bytes.
std::string Quoted(std::string_view text);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_BASE_UTF8_H_
