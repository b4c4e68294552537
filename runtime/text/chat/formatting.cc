#include "runtime/text/chat/formatting.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/text/chat/characters.h"
#include "runtime/text/chat/printing.h"
#include "runtime/text/utf8.h"

namespace headway::text::chat {
namespace {

constexpr int kMaxWidth = 4096;  // and precision

struct Spec {
  MarkedText fill = MarkedText(" ", true);
  bool trusted = true;  // what asks for this: a number formatted by a user's text is the user's
  char align = 0;       // < > ^; 0: numbers right, texts left
  bool plus = false;
  bool zero = false;
  int width = 0;
  int precision = -1;
  char type = 's';
};

absl::Status BadFormat(std::string_view why) {
  return TemplateError(absl::StrCat("format: ", ToAbsl(why)));
}

// Reads digits at *i; -1 when there are none.
absl::StatusOr<int> ReadNumber(std::string_view text, size_t* i) {
  int number = -1;
  for (; *i < text.size() && text[*i] >= '0' && text[*i] <= '9'; ++*i) {
    number = std::max(number, 0) * 10 + (text[*i] - '0');
    if (number > kMaxWidth) {
      return BadFormat(absl::StrCat("a width or precision of more than ", kMaxWidth));
    }
  }
  return number;
}

absl::StatusOr<std::string> FormatNumber(const Value& value, const Spec& spec) {
  if (!value.is_number()) {
    return BadFormat(absl::StrCat("%", std::string(1, spec.type), " needs a number, not ",
                                  ToAbsl(value.type_name())));
  }
  if (spec.type == 'd' || spec.type == 'i' || spec.type == 'x') {
    Int integer = 0;
    if (value.is_float()) {
      const double d = value.as_double();
      if (!(std::fabs(d) < 0x1p120)) return BadFormat("a float that is no integer");
      integer = static_cast<Int>(d);
    } else {
      integer = value.as_int();
    }
    if (spec.type != 'x') return FormatInt(integer);
    if (integer > INT64_MAX || integer < -INT64_MAX) return BadFormat("%x of more than 63 bits");
    const auto magnitude = static_cast<uint64_t>(integer < 0 ? -integer : integer);
    return absl::StrCat(integer < 0 ? "-" : "", absl::Hex(magnitude));
  }
  char buffer[kMaxWidth + 400];
  const auto format = spec.type == 'f'   ? std::chars_format::fixed
                      : spec.type == 'e' ? std::chars_format::scientific
                                         : std::chars_format::general;
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value.as_double(), format,
                                    spec.precision < 0 ? 6 : spec.precision);
  return std::string(buffer, result.ptr - buffer);
}

absl::Status FormatOne(Runtime& runtime, const Value& value, const Spec& spec, TextBuilder* out) {
  TextBuilder builder(runtime);
  const bool is_text = spec.type == 's' || spec.type == 'r';
  if (spec.type == 's') {
    AppendStr(value, &builder);
  } else if (spec.type == 'r') {
    AppendRepr(value, &builder);
  } else {
    HEADWAY_ASSIGN_OR_RETURN(std::string number, FormatNumber(value, spec));
    if (spec.plus && number[0] != '-') number.insert(0, "+");
    if (spec.zero && spec.align == 0) {
      const size_t sign = number[0] == '-' || number[0] == '+' ? 1 : 0;
      while (number.size() < static_cast<size_t>(spec.width)) number.insert(sign, "0");
    }
    builder.Append(number, spec.trusted && !value.from_request());
  }
  HEADWAY_ASSIGN_OR_RETURN(MarkedText text, builder.TakeText());
  if (is_text && spec.precision >= 0) {
    text = text.Range(0, CharacterOffset(text.bytes(), spec.precision));
  }
  const size_t length = CountCharacters(text.bytes());
  const size_t missing = spec.width > static_cast<int>(length) ? spec.width - length : 0;
  const char align = spec.align != 0 ? spec.align : is_text && !value.is_number() ? '<' : '>';
  const size_t before = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  for (size_t i = 0; i < before; ++i) out->Append(spec.fill);
  out->Append(text);
  for (size_t i = before; i < missing; ++i) out->Append(spec.fill);
  return absl::OkStatus();
}

// What stands behind the colon in {0:...}.
absl::StatusOr<Spec> ParseSpec(const MarkedText& marked, const Value& value) {
  const std::string_view text = marked.bytes();
  Spec spec;
  spec.trusted = marked.all_trusted();
  spec.type = value.is_number() && !value.is_bool() ? 0 : 's';
  size_t i = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^'; };
  if (!text.empty()) {
    const size_t fill = Utf8Length(text[0]);
    if (text.size() > fill && is_align(text[fill])) {
      spec.fill = marked.Range(0, fill);
      spec.align = text[fill];
      i = fill + 1;
    } else if (is_align(text[0])) {
      spec.align = text[0];
      i = 1;
    }
  }
  if (i < text.size() && text[i] == '+') {
    spec.plus = true;
    ++i;
  }
  if (i < text.size() && text[i] == '0') {
    spec.zero = true;
    ++i;
  }
  HEADWAY_ASSIGN_OR_RETURN(const int width, ReadNumber(text, &i));
  spec.width = std::max(width, 0);
  if (i < text.size() && text[i] == '.') {
    ++i;
    HEADWAY_ASSIGN_OR_RETURN(spec.precision, ReadNumber(text, &i));
  }
  if (i + 1 == text.size() && std::string_view("sdxfeg").find(text[i]) != std::string_view::npos) {
    spec.type = text[i++];
  }
  if (i != text.size()) {
    return BadFormat(absl::StrCat("the specification '", ToAbsl(text), "' is not supported"));
  }
  // A bare number prints as str() does, but stands on the right.
  if (spec.type == 0) spec.type = spec.precision >= 0 ? 'g' : value.is_float() ? 's' : 'd';
  return spec;
}

}  // namespace

absl::StatusOr<Value> FormatPercent(Runtime& runtime, const MarkedText& format,
                                    const std::vector<Value>& arguments) {
  TextBuilder out(runtime);
  const std::string_view text = format.bytes();
  size_t next = 0;
  size_t done = 0;
  for (size_t i = FindBytes(text, "%", 0); i < text.size(); i = FindBytes(text, "%", done)) {
    out.AppendRange(format, done, i);
    const bool trusted = format.trusted_at(i);
    ++i;
    Spec spec;
    spec.trusted = trusted;
    for (; i < text.size() && std::string_view("-+0 #").find(text[i]) != std::string_view::npos;
         ++i) {
      if (text[i] == '-') spec.align = '<';
      if (text[i] == '+') spec.plus = true;
      if (text[i] == '0') spec.zero = true;
    }
    HEADWAY_ASSIGN_OR_RETURN(const int width, ReadNumber(text, &i));
    spec.width = std::max(width, 0);
    if (i < text.size() && text[i] == '.') {
      ++i;
      HEADWAY_ASSIGN_OR_RETURN(spec.precision, ReadNumber(text, &i));
      spec.precision = std::max(spec.precision, 0);
    }
    if (i >= text.size()) return BadFormat("incomplete format");
    spec.type = text[i];
    done = i + 1;
    if (spec.type == '%') {
      out.Append("%", trusted);
      continue;
    }
    if (std::string_view("srdixfeg").find(spec.type) == std::string_view::npos) {
      return BadFormat(absl::StrCat("%", std::string(1, spec.type), " is not supported"));
    }
    if (next >= arguments.size()) return BadFormat("not enough arguments for format string");
    if (spec.align == 0 && !spec.zero) spec.align = '>';
    HEADWAY_RETURN_IF_ERROR(runtime.budget().Step());
    HEADWAY_RETURN_IF_ERROR(FormatOne(runtime, arguments[next++], spec, &out));
  }
  if (next < arguments.size()) {
    return BadFormat("not all arguments converted during string formatting");
  }
  out.AppendRange(format, done, text.size());
  return out.Finish();
}

absl::StatusOr<Value> FormatBraces(Runtime& runtime, const MarkedText& format,
                                   const Arguments& arguments) {
  TextBuilder out(runtime);
  const std::string_view text = format.bytes();
  size_t automatic = 0;
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '{' && text[i] != '}') {
      ++i;
      continue;
    }
    out.AppendRange(format, done, i);
    if (i + 1 < text.size() && text[i + 1] == text[i]) {  // doubled: itself
      out.AppendRange(format, i, i + 1);
      done = i += 2;
      continue;
    }
    const size_t end = FindBytes(text, "}", i);
    if (text[i] == '}' || end == std::string_view::npos) return BadFormat("unmatched brace");
    std::string_view field = text.substr(i + 1, end - i - 1);
    if (field.find('{') != std::string_view::npos) return BadFormat("nested fields");
    MarkedText spec_text;
    if (const size_t colon = field.find(':'); colon != std::string_view::npos) {
      spec_text = format.Range(i + 1 + colon + 1, end);
      field = field.substr(0, colon);
    }
    char conversion = 's';
    if (const size_t bang = field.find('!'); bang != std::string_view::npos) {
      if (bang + 2 != field.size()) return BadFormat("a conversion is one letter");
      conversion = field[bang + 1];
      field = field.substr(0, bang);
    }
    const Value* value = nullptr;
    size_t digits = 0;
    HEADWAY_ASSIGN_OR_RETURN(const int number, ReadNumber(field, &digits));
    if (field.empty() || (number >= 0 && digits == field.size())) {
      const size_t index = field.empty() ? automatic++ : static_cast<size_t>(number);
      if (index < arguments.positional.size()) value = &arguments.positional[index];
    } else {
      for (const auto& [name, named] : arguments.named) {
        if (name == field) value = &named;
      }
    }
    if (value == nullptr) {
      return BadFormat(absl::StrCat("there is no argument '", ToAbsl(field), "'"));
    }
    HEADWAY_RETURN_IF_ERROR(runtime.budget().Step());
    HEADWAY_ASSIGN_OR_RETURN(Spec spec, ParseSpec(spec_text, *value));
    if (conversion == 'r') {
      spec.type = 'r';
    } else if (conversion != 's') {
      return BadFormat("only the conversions !r and !s are supported");
    }
    HEADWAY_RETURN_IF_ERROR(FormatOne(runtime, *value, spec, &out));
    done = i = end + 1;
  }
  out.AppendRange(format, done, text.size());
  return out.Finish();
}

}  // namespace headway::text::chat
