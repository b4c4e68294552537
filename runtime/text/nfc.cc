#include "runtime/text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "runtime/text/utf8.h"

namespace headway::text {
namespace {

// Below U+0300 every character is its own normal form and begins a new one.
bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0xcc; });
}

int CombiningClass(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

}  // namespace

std::string NormalizeNfc(std::string_view text) {
  if (IsPlain(text)) return std::string(text);
  std::vector<utf8proc_int32_t> code_points;
  code_points.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<utf8proc_int32_t>(NextCodePoint(text, &i));
    utf8proc_int32_t parts[16];  // a canonical decomposition has at most 4
    int last_boundary = 0;
    const auto count = utf8proc_decompose_char(c, parts, 16, UTF8PROC_DECOMPOSE, &last_boundary);
    if (count <= 0 || count > 16) {
      code_points.push_back(c);
    } else {
      code_points.insert(code_points.end(), parts, parts + count);
    }
  }
  // utf8proc sorts combining marks in quadratic time, so that is done here.
  for (auto begin = code_points.begin(); begin != code_points.end();) {
    if (CombiningClass(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, code_points.end(),
                                  [](utf8proc_int32_t c) { return CombiningClass(c) == 0; });
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    begin = end;
  }
  const auto length = utf8proc_normalize_utf32(
      code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()),
      static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < length; ++i) {
    AppendUtf8(static_cast<char32_t>(code_points[i]), &out);
  }
  return out;
}

}  // namespace headway::text
