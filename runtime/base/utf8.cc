#include "runtime/base/utf8.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/strings.h"

namespace headway {

Utf8Lead LeadOf(unsigned char byte) {
  if (byte < 0x80) return {1, 0x80, 0xbf};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const Utf8Lead lead = LeadOf(static_cast<unsigned char>(text[i]));
    const auto length = static_cast<size_t>(lead.length);
    if (length == 0 || text.size() - i < length) return i;
    unsigned char low = lead.low, high = lead.high;
    for (size_t k = 1; k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if (byte < low || byte > high) return i;
      low = 0x80;
      high = 0xbf;
    }
    i += length;
  }
  return std::nullopt;
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
