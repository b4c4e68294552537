#include "runtime/base/utf8.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/strings.h"

namespace headway {
namespace {

// Length of the well-formed character at the front of `text`; 0 when there is none.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const size_t bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() < bytes) return 0;
  // The second byte's range excludes overlong forms, surrogates, and what lies above U+10FFFF.
  const uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < bytes; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return bytes;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string Quoted(std::string_view text) {
  constexpr size_t kShown = 80;
  std::string_view shown = text.substr(0, kShown);
  // Do not cut a character in two: that would show it as malformed.
  while (shown.size() < text.size() && shown.size() > kShown - 4 && !IsUtf8(shown)) {
    shown.remove_suffix(1);
  }
  const bool cut = shown.size() < text.size();
  const std::string escaped =
      IsUtf8(shown) ? absl::Utf8SafeCHexEscape(ToAbsl(shown)) : absl::CHexEscape(ToAbsl(shown));
  return absl::StrCat("'", escaped, cut ? "..." : "", "'");
}

}  // namespace headway
