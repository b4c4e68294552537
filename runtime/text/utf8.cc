#include "runtime/text/utf8.h"

#include "runtime/base/utf8.h"

namespace headway::text {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

}  // namespace

char32_t NextCodePoint(std::string_view text, size_t* offset) {
  const auto lead = static_cast<unsigned char>(text[*offset]);
  const size_t length = Utf8Length(text[*offset]);
  char32_t code_point = length == 1 ? lead : lead & (0xff >> (length + 1));
  for (size_t k = 1; k < length; ++k) {
    code_point = code_point << 6 | (static_cast<unsigned char>(text[*offset + k]) & 0x3f);
  }
  *offset += length;
  return code_point;
}

void AppendUtf8(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xc0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xf0 | c >> 18));
    out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  }
}

bool IsWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

void Utf8Stream::Feed(std::string_view bytes, std::string* out) {
  for (size_t i = 0; i < bytes.size();) {
    const auto b = static_cast<unsigned char>(bytes[i]);
    if (needed_ == 0) {
      const Utf8Lead lead = LeadOf(b);
      if (lead.length == 1) {
        out->push_back(bytes[i]);
      } else if (lead.length == 0) {
        out->append(kReplacement);
      } else {
        waiting_[0] = bytes[i];
        seen_ = 1;
        needed_ = lead.length;
        low_ = lead.low;
        high_ = lead.high;
      }
      ++i;
    } else if (b < low_ || b > high_) {
      out->append(kReplacement);  // for what waited; this byte is looked at again
      needed_ = 0;
    } else {
      waiting_[seen_++] = bytes[i++];
      low_ = 0x80;
      high_ = 0xbf;
      if (seen_ == needed_) {
        out->append(waiting_, seen_);
        needed_ = 0;
      }
    }
  }
}

void Utf8Stream::Finish(std::string* out) {
  if (needed_ != 0) out->append(kReplacement);
  needed_ = 0;
}

}  // namespace headway::text
