#ifndef HEADWAY_RUNTIME_TEXT_BYTE_ALPHABET_H_
#define HEADWAY_RUNTIME_TEXT_BYTE_ALPHABET_H_

#include <optional>
#include <string>
#include <string_view>

namespace headway::text {

// Byte-level vocabularies write each byte as one printable character: bytes 0x21-0x7e, 0xa1-0xac
// and 0xae-0xff as the code point of the same number, the other 68 in ascending order as U+0100
// and following (Radford et al. 2019, bytes_to_unicode).

// The bytes that `token` stands for; nullopt when it is not valid UTF-8 or holds a character
// outside the alphabet.
std::optional<std::string> BytesFromAlphabet(std::string_view token);

// The other way.
std::string BytesToAlphabet(std::string_view bytes);

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_BYTE_ALPHABET_H_
