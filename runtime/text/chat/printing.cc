#include "runtime/text/chat/printing.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/text/utf8.h"

namespace headway::text::chat {

std::string FormatInt(Int value) {
  std::string digits;
  auto rest =
      value < 0 ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  do {
    digits.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
    rest /= 10;
  } while (rest != 0);
  if (value < 0) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto shortest =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view scientific(buffer, shortest.ptr - buffer);
  const size_t e = scientific.find('e');
  int exponent = 0;
  std::from_chars(scientific.data() + e + (scientific[e + 1] == '+' ? 2 : 1),
                  scientific.data() + scientific.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string text(buffer, fixed.ptr - buffer);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

namespace {

bool IsPrintable(char32_t c) {
  if (c == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

// Appends `text` with some characters replaced: `escape` gives the replacement of a character, or
// nothing where it stays. A replacement has the mark of what it replaces.
template <typename Escape>
void AppendEscaped(const MarkedText& text, Escape escape, TextBuilder* out) {
  const std::string_view bytes = text.bytes();
  size_t done = 0;
  for (size_t i = 0; i < bytes.size();) {
    const size_t begin = i;
    const std::string replacement = escape(NextCodePoint(bytes, &i));
    if (replacement.empty()) continue;
    out->AppendRange(text, done, begin);
    out->Append(replacement, text.trusted_at(begin));
    done = i;
  }
  out->AppendRange(text, done, bytes.size());
}

void AppendQuoted(const MarkedText& text, TextBuilder* out) {
  const std::string_view bytes = text.bytes();
  const bool has_single = bytes.find('\'') != std::string_view::npos;
  const bool has_double = bytes.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out->Append(std::string_view(&quote, 1), true);
  AppendEscaped(
      text,
      [quote](char32_t c) -> std::string {
        if (c == static_cast<char32_t>(quote)) return {'\\', quote};
        if (c == '\\') return "\\\\";
        if (c == '\n') return "\\n";
        if (c == '\r') return "\\r";
        if (c == '\t') return "\\t";
        if (IsPrintable(c)) return {};
        if (c < 0x100) return absl::StrFormat("\\x%02x", static_cast<uint32_t>(c));
        if (c < 0x10000) return absl::StrFormat("\\u%04x", static_cast<uint32_t>(c));
        return absl::StrFormat("\\U%08x", static_cast<uint32_t>(c));
      },
      out);
  out->Append(std::string_view(&quote, 1), true);
}

void AppendListRepr(const List& list, TextBuilder* out) {
  if (list.kind == List::Kind::kGenerator) {
    out->Append("<generator object>", true);
    return;
  }
  const bool is_tuple = list.kind == List::Kind::kTuple;
  out->Append(list.kind == List::Kind::kView ? "dict_view([" : is_tuple ? "(" : "[", true);
  bool first = true;
  for (const Value& item : list.items) {
    if (out->overflowed()) return;
    if (!first) out->Append(", ", true);
    first = false;
    AppendRepr(item, out);
  }
  if (is_tuple && list.items.size() == 1) out->Append(",", true);
  out->Append(list.kind == List::Kind::kView ? "])" : is_tuple ? ")" : "]", true);
}

void AppendDictRepr(const Dict& dict, TextBuilder* out) {
  out->Append("{", true);
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (out->overflowed()) return;
    if (!first) out->Append(", ", true);
    first = false;
    AppendRepr(key, out);
    out->Append(": ", true);
    AppendRepr(value, out);
  }
  out->Append("}", true);
}

}  // namespace

void AppendStr(const Value& value, TextBuilder* out) {
  if (const MarkedText* text = value.string()) {
    out->Append(*text);
  } else if (!value.is_undefined()) {
    AppendRepr(value, out);
  }
}

void AppendRepr(const Value& value, TextBuilder* out) {
  const bool trusted = !value.from_request();
  if (value.is_undefined()) {
    out->Append("Undefined", true);
  } else if (value.is_none()) {
    out->Append("None", trusted);
  } else if (value.is_bool()) {
    out->Append(value.as_bool() ? "True" : "False", trusted);
  } else if (value.is_int()) {
    out->Append(FormatInt(value.as_int()), trusted);
  } else if (value.is_float()) {
    out->Append(FormatFloat(value.as_double()), trusted);
  } else if (const MarkedText* text = value.string()) {
    AppendQuoted(*text, out);
  } else if (const List* list = value.list()) {
    AppendListRepr(*list, out);
  } else if (const Dict* dict = value.dict()) {
    AppendDictRepr(*dict, out);
  } else {
    out->Append(absl::StrCat("<", ToAbsl(value.object()->type_name()), ">"), true);
  }
}

absl::StatusOr<MarkedText> ToText(Runtime& runtime, const Value& value) {
  TextBuilder builder(runtime);
  AppendStr(value, &builder);
  return builder.TakeText();
}

namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonFormat& format, TextBuilder* out)
      : runtime_(runtime), format_(format), out_(out) {}

  absl::Status Write(const Value& value, int level) {
    HEADWAY_RETURN_IF_ERROR(runtime_.budget().Step());
    HEADWAY_RETURN_IF_ERROR(out_->Check());
    if (const MarkedText* text = value.string()) {
      WriteString(*text);
    } else if (const List* list = value.list();
               list != nullptr &&
               (list->kind == List::Kind::kList || list->kind == List::Kind::kTuple)) {
      return WriteList(*list, level);
    } else if (const Dict* dict = value.dict()) {
      return WriteDict(*dict, level);
    } else if (std::string scalar; Scalar(value, &scalar)) {
      out_->Append(scalar, !value.from_request());
    } else {
      return TemplateError(
          absl::StrCat("Object of type ", ToAbsl(value.type_name()), " is not JSON serializable"));
    }
    return absl::OkStatus();
  }

 private:
  static bool Scalar(const Value& value, std::string* out) {
    if (value.is_none()) {
      *out = "null";
    } else if (value.is_bool()) {
      *out = value.as_bool() ? "true" : "false";
    } else if (value.is_int()) {
      *out = FormatInt(value.as_int());
    } else if (value.is_float()) {
      const double d = value.as_double();
      *out = std::isnan(d)   ? "NaN"
             : std::isinf(d) ? (d < 0 ? "-Infinity" : "Infinity")
                             : FormatFloat(d);
    } else {
      return false;
    }
    return true;
  }

  void WriteString(const MarkedText& text) {
    out_->Append("\"", true);
    const bool ascii = format_.ensure_ascii;
    AppendEscaped(
        text,
        [ascii](char32_t c) -> std::string {
          switch (c) {
            case '"':
              return "\\\"";
            case '\\':
              return "\\\\";
            case '\n':
              return "\\n";
            case '\r':
              return "\\r";
            case '\t':
              return "\\t";
            case '\b':
              return "\\b";
            case '\f':
              return "\\f";
          }
          if (c >= 0x20 && (c < 0x80 || !ascii)) return {};
          if (c < 0x10000) return absl::StrFormat("\\u%04x", static_cast<uint32_t>(c));
          const uint32_t rest = static_cast<uint32_t>(c) - 0x10000;
          return absl::StrFormat("\\u%04x\\u%04x", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
        },
        out_);
    out_->Append("\"", true);
  }

  void NewLine(int level) {
    if (format_.indent < 0) return;
    out_->Append("\n", true);
    out_->Append(std::string(static_cast<size_t>(format_.indent) * level, ' '), true);
  }

  absl::Status WriteList(const List& list, int level) {
    out_->Append("[", true);
    bool first = true;
    for (const Value& item : list.items) {
      if (!first) out_->Append(format_.item_separator);
      first = false;
      NewLine(level + 1);
      HEADWAY_RETURN_IF_ERROR(Write(item, level + 1));
    }
    if (!first) NewLine(level);
    out_->Append("]", true);
    return absl::OkStatus();
  }

  absl::Status WriteDict(const Dict& dict, int level) {
    std::vector<std::pair<MarkedText, const Value*>> members;
    for (const auto& [key, value] : dict.entries) {
      std::string scalar;
      if (const MarkedText* text = key.string()) {
        members.emplace_back(*text, &value);
      } else if (Scalar(key, &scalar)) {
        members.emplace_back(MarkedText(scalar, !key.from_request()), &value);
      } else {
        return TemplateError(absl::StrCat("keys must be str, int, float, bool or None, not ",
                                          ToAbsl(key.type_name())));
      }
    }
    if (format_.sort_keys) {
      std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
        return a.first.bytes() < b.first.bytes();
      });
    }
    out_->Append("{", true);
    bool first = true;
    for (const auto& [key, value] : members) {
      if (!first) out_->Append(format_.item_separator);
      first = false;
      NewLine(level + 1);
      WriteString(key);
      out_->Append(format_.key_separator);
      HEADWAY_RETURN_IF_ERROR(Write(*value, level + 1));
    }
    if (!first) NewLine(level);
    out_->Append("}", true);
    return absl::OkStatus();
  }

  Runtime& runtime_;
  const JsonFormat& format_;
  TextBuilder* out_;
};

}  // namespace

absl::Status AppendJson(Runtime& runtime, const Value& value, const JsonFormat& format,
                        TextBuilder* out) {
  return JsonWriter(runtime, format, out).Write(value, 0);
}

}  // namespace headway::text::chat
