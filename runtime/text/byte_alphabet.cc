#include "runtime/text/byte_alphabet.h"

#include <array>

#include "runtime/base/utf8.h"
#include "runtime/text/utf8.h"

namespace headway::text {
namespace {

constexpr int kCodePoints = 0x144;  // 256 bytes, 68 of them moved behind U+00FF

constexpr bool IsPrintable(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Tables {
  std::array<char32_t, 256> code_point{};
  std::array<int, kCodePoints> byte{};

  constexpr Tables() {
    for (int& b : byte) b = -1;
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      code_point[b] = IsPrintable(b) ? static_cast<char32_t>(b) : next++;
      byte[code_point[b]] = b;
    }
  }
};

constexpr Tables kTables;

}  // namespace

std::optional<std::string> BytesFromAlphabet(std::string_view token) {
  if (FindInvalidUtf8(token)) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < token.size();) {
    const char32_t c = NextCodePoint(token, &i);
    if (c >= kCodePoints || kTables.byte[c] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kTables.byte[c]));
  }
  return bytes;
}

std::string BytesToAlphabet(std::string_view bytes) {
  std::string token;
  for (const char b : bytes) {
    AppendUtf8(kTables.code_point[static_cast<unsigned char>(b)], &token);
  }
  return token;
}

}  // namespace headway::text
