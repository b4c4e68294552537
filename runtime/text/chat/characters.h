#ifndef HEADWAY_RUNTIME_TEXT_CHAT_CHARACTERS_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_CHARACTERS_H_

#include <cstddef>
#include <string_view>

namespace headway::text::chat {

// Characters (code points) of valid UTF-8 texts, as Python's str sees them.

size_t CountCharacters(std::string_view text);
// Where character `index` starts; text.size() when there are not that many.
size_t CharacterOffset(std::string_view text, size_t index);
// Where the character that ends at `end` > 0 starts.
size_t PreviousCharacter(std::string_view text, size_t end);

// Where `needle` starts at or after `from`, or npos. Linear in `text` whatever it holds.
size_t FindBytes(std::string_view text, std::string_view needle, size_t from);

bool IsSpace(char32_t c);   // str.isspace: White_Space and U+001C to U+001F
bool IsLetter(char32_t c);  // str.isalpha
bool IsUppercase(char32_t c);
bool IsLowercase(char32_t c);
bool IsDecimal(char32_t c);  // category Nd
bool IsNumeric(char32_t c);  // categories Nd, Nl, No

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_CHARACTERS_H_
