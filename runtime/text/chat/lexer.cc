#include "runtime/text/chat/lexer.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/base/utf8.h"
#include "runtime/text/chat/characters.h"
#include "runtime/text/utf8.h"

namespace headway::text::chat {
namespace {

constexpr size_t kNone = std::string_view::npos;

// All kinds of newline become \n; one at the end is dropped.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool IsNameStart(char32_t c) {
  return c == '_' || (c < 0x80 ? (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') : IsLetter(c));
}

bool IsDigitCharacter(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string source) : storage_(std::move(source)), source_(storage_) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) HEADWAY_RETURN_IF_ERROR(TextAndTag());
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void Add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  bool LooksAt(std::string_view text) const { return source_.substr(at_).starts_with(text); }

  // Moves on to `end` and counts lines.
  void MoveTo(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + end, '\n'));
    line_starts_ = end > 0 && source_[end - 1] == '\n';
    at_ = end;
  }

  size_t SkipSpace(size_t i) const {
    for (size_t next = i; next < source_.size() && IsSpace(NextCodePoint(source_, &next));) {
      i = next;
    }
    return i;
  }

  // Behind the delimiter of a tag's end at `end` (two bytes): '-' before it takes all white space,
  // '+' nothing, else one newline goes.
  size_t AfterTag(size_t end, char sign, bool takes_newline) const {
    end += 2;
    if (sign == '-') return SkipSpace(end);
    if (sign != '+' && takes_newline && end < source_.size() && source_[end] == '\n') ++end;
    return end;
  }

  // The text before a tag whose opening carries `sign`.
  void AddText(std::string_view text, char sign, bool is_print) {
    if (sign == '-') {
      size_t end = text.size();
      while (end > 0) {
        size_t begin = PreviousCharacter(text, end);
        const size_t previous = begin;
        if (!IsSpace(NextCodePoint(text, &begin))) break;
        end = previous;
      }
      text = text.substr(0, end);
    } else if (sign != '+' && !is_print) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == kNone ? 0 : newline + 1;
      if (line > 0 || line_starts_) {
        size_t i = line;
        bool blank = true;
        while (blank && i < text.size()) blank = IsSpace(NextCodePoint(text, &i));
        if (blank) text = text.substr(0, line);
      }
    }
    if (!text.empty()) Add(TokenKind::kText, std::string(text));
  }

  static char SignAt(std::string_view source, size_t i) {
    return i < source.size() && (source[i] == '-' || source[i] == '+') ? source[i] : 0;
  }

  absl::Status TextAndTag() {
    size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == kNone || tag + 1 >= source_.size()) {
        tag = kNone;
        break;
      }
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    if (tag == kNone) {
      Add(TokenKind::kText, std::string(source_.substr(at_)));
      MoveTo(source_.size());
      return absl::OkStatus();
    }
    const char sign = SignAt(source_, tag + 2);
    const bool is_print = source_[tag + 1] == '{';
    AddText(source_.substr(at_, tag - at_), sign, is_print);
    const size_t inside = tag + (sign != 0 ? 3 : 2);
    if (source_[tag + 1] == '#') return Comment(tag, inside);
    if (const std::optional<size_t> raw = RawTag(inside, "raw", is_print)) return Raw(tag, *raw);
    MoveTo(inside);
    Add(is_print ? TokenKind::kPrint : TokenKind::kBlock, "");
    return Inside(is_print);
  }

  absl::Status Comment(size_t tag, size_t inside) {
    const size_t end = source_.find("#}", inside);
    MoveTo(inside);
    if (end == kNone) return SyntaxError(line_, "Missing end of comment tag");
    const char sign = end > inside ? SignAt(source_, end - 1) : 0;
    MoveTo(AfterTag(end, sign, /*takes_newline=*/true));
    return absl::OkStatus();
  }

  // Where the delimiter that ends the tag {% name %} starts, for the inside of a tag at `i`;
  // nullopt when it is another tag.
  std::optional<size_t> RawTag(size_t i, std::string_view name, bool is_print) const {
    if (is_print) return std::nullopt;
    i = SkipSpace(i);
    if (!source_.substr(i).starts_with(name)) return std::nullopt;
    i = SkipSpace(i + name.size());
    const size_t delimiter = SignAt(source_, i) != 0 ? i + 1 : i;
    if (!source_.substr(delimiter).starts_with("%}")) return std::nullopt;
    return delimiter;
  }

  absl::Status Raw(size_t tag, size_t delimiter) {
    MoveTo(AfterTag(delimiter, SignAt(source_, delimiter - 1), /*takes_newline=*/false));
    for (size_t end = source_.find("{%", at_); end != kNone; end = source_.find("{%", end + 1)) {
      const char sign = SignAt(source_, end + 2);
      const auto close = RawTag(end + (sign != 0 ? 3 : 2), "endraw", false);
      if (!close) continue;
      AddText(source_.substr(at_, end - at_), sign, false);
      MoveTo(AfterTag(*close, SignAt(source_, *close - 1), /*takes_newline=*/true));
      return absl::OkStatus();
    }
    return SyntaxError(line_, "Missing end of raw directive");
  }

  // The end of a print or block tag at the current place, if it is one.
  bool TagEnd(bool is_print) {
    const std::string_view delimiter = is_print ? "}}" : "%}";
    const char sign = SignAt(source_, at_);
    const bool has_sign = sign == '-' || (sign == '+' && !is_print);
    const size_t end = has_sign ? at_ + 1 : at_;
    if (!source_.substr(end).starts_with(delimiter)) return false;
    Add(is_print ? TokenKind::kPrintEnd : TokenKind::kBlockEnd, "");
    MoveTo(AfterTag(end, has_sign ? sign : 0, /*takes_newline=*/!is_print));
    return true;
  }

  absl::Status Inside(bool is_print) {
    std::string brackets;  // the closing ones that are due
    while (true) {
      MoveTo(SkipSpace(at_));
      if (at_ >= source_.size()) {
        return SyntaxError(line_, is_print ? "unexpected end of template, expected '}}'"
                                           : "unexpected end of template, expected '%}'");
      }
      if (brackets.empty() && TagEnd(is_print)) return absl::OkStatus();
      const char c = source_[at_];
      size_t next = at_;
      const char32_t code_point = NextCodePoint(source_, &next);
      if (IsDigitCharacter(c)) {
        HEADWAY_RETURN_IF_ERROR(Number());
      } else if (c == '\'' || c == '"') {
        HEADWAY_RETURN_IF_ERROR(StringLiteral(c));
      } else if (IsNameStart(code_point)) {
        Name();
      } else {
        HEADWAY_RETURN_IF_ERROR(Operator(&brackets));
      }
    }
  }

  void Name() {
    size_t end = at_;
    for (size_t next = end; next < source_.size();) {
      const char32_t c = NextCodePoint(source_, &next);
      if (!IsNameStart(c) && !IsDecimal(c)) break;
      end = next;
    }
    Add(TokenKind::kName, std::string(source_.substr(at_, end - at_)));
    MoveTo(end);
  }

  // Digits and underscores between them, from `i`.
  size_t SkipDigits(size_t i, std::string* digits) const {
    while (i < source_.size() &&
           (IsDigitCharacter(source_[i]) ||
            (source_[i] == '_' && i + 1 < source_.size() && IsDigitCharacter(source_[i + 1])))) {
      if (source_[i] != '_') digits->push_back(source_[i]);
      ++i;
    }
    return i;
  }

  absl::Status Number() {
    std::string digits;
    size_t end = SkipDigits(at_, &digits);
    bool is_float = false;
    // 1.5 is a float, but x.0.real is not; "1." is the integer 1 and a dot.
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!after_dot && end + 1 < source_.size() && source_[end] == '.' &&
        IsDigitCharacter(source_[end + 1])) {
      digits.push_back('.');
      end = SkipDigits(end + 1, &digits);
      is_float = true;
    }
    if (!after_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      std::string text = "e";
      if (const char sign = SignAt(source_, exponent); sign != 0) {
        text.push_back(sign);
        ++exponent;
      }
      if (exponent < source_.size() && IsDigitCharacter(source_[exponent])) {
        end = SkipDigits(exponent, &text);
        digits += text;
        is_float = true;
      }
    }
    Add(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(digits));
    MoveTo(end);
    return absl::OkStatus();
  }

  // Reads `count` hexadecimal digits at *i.
  std::optional<char32_t> Hexadecimal(size_t* i, int count) const {
    uint64_t value = 0;
    for (int k = 0; k < count; ++k, ++*i) {
      if (*i >= source_.size()) return std::nullopt;
      const char c = source_[*i];
      const int digit = IsDigitCharacter(c)    ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return std::nullopt;
      value = value << 4 | static_cast<uint64_t>(digit);
    }
    if (value > 0x10ffff) return std::nullopt;
    return static_cast<char32_t>(value);
  }

  absl::Status StringLiteral(char quote) {
    std::string value;
    size_t i = at_ + 1;
    while (true) {
      if (i >= source_.size()) return SyntaxError(line_, "unexpected end of a string");
      const char c = source_[i++];
      if (c == quote) break;
      if (c != '\\') {
        value.push_back(c);
        continue;
      }
      if (i >= source_.size()) return SyntaxError(line_, "unexpected end of a string");
      if (!Escape(&i, &value)) return SyntaxError(line_, "malformed escape in a string");
    }
    Add(TokenKind::kString, std::move(value));
    MoveTo(i);
    return absl::OkStatus();
  }

  // What follows a backslash, as in Python's string literals.
  bool Escape(size_t* i, std::string* value) const {
    const char c = source_[(*i)++];
    constexpr std::string_view kNames = "abfnrtv\\'\"";
    constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t known = kNames.find(c); known != kNone) {
      value->push_back(kValues[known]);
      return true;
    }
    if (c == '\n') return true;  // joins two lines
    if (c >= '0' && c <= '7') {
      char32_t code_point = c - '0';
      for (int k = 0; k < 2 && *i < source_.size() && source_[*i] >= '0' && source_[*i] <= '7';
           ++k) {
        code_point = code_point * 8 + (source_[(*i)++] - '0');
      }
      AppendUtf8(code_point, value);
      return true;
    }
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {  // not an escape: the backslash stays
      value->push_back('\\');
      value->push_back(c);
      return true;
    }
    std::optional<char32_t> code_point = Hexadecimal(i, digits);
    if (!code_point) return false;
    if (*code_point >= 0xd800 && *code_point < 0xdc00 && source_.substr(*i).starts_with("\\u")) {
      *i += 2;
      const std::optional<char32_t> low = Hexadecimal(i, 4);
      if (!low || *low < 0xdc00 || *low > 0xdfff) return false;
      code_point = 0x10000 + ((*code_point - 0xd800) << 10) + (*low - 0xdc00);
    }
    if (*code_point >= 0xd800 && *code_point <= 0xdfff) return false;  // half a character
    AppendUtf8(*code_point, value);
    return true;
  }

  absl::Status Operator(std::string* brackets) {
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (LooksAt(two)) {
        Add(TokenKind::kOperator, std::string(two));
        MoveTo(at_ + 2);
        return absl::OkStatus();
      }
    }
    const char c = source_[at_];
    if (std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == kNone) {
      size_t end = at_;
      NextCodePoint(source_, &end);
      return SyntaxError(line_, absl::StrCat("unexpected character '",
                                             ToAbsl(source_.substr(at_, end - at_)), "'"));
    }
    if (c == '(') brackets->push_back(')');
    if (c == '[') brackets->push_back(']');
    if (c == '{') brackets->push_back('}');
    if (c == ')' || c == ']' || c == '}') {
      if (brackets->empty() || brackets->back() != c) {
        return SyntaxError(line_, absl::StrCat("unexpected '", std::string(1, c), "'"));
      }
      brackets->pop_back();
    }
    Add(TokenKind::kOperator, std::string(1, c));
    MoveTo(at_ + 1);
    return absl::OkStatus();
  }

  const std::string storage_;
  const std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  // whether the current place is at the start of a line
  std::vector<Token> tokens_;
};

}  // namespace

absl::Status SyntaxError(int line, std::string_view message) {
  return absl::InvalidArgumentError(
      absl::StrCat("chat template, line ", line, ": ", ToAbsl(message)));
}

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("chat template of ", source.size(), " bytes; at most ", kMaxTemplateBytes));
  }
  if (const auto offset = FindInvalidUtf8(source)) {
    return absl::InvalidArgumentError(absl::StrCat("chat template: not UTF-8 at byte ", *offset));
  }
  return Lexer(NormalizeNewlines(source)).Run();
}

}  // namespace headway::text::chat
