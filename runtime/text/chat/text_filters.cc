// Filters that make texts of texts.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/text/chat/arguments.h"
#include "runtime/text/chat/characters.h"
#include "runtime/text/chat/filters.h"
#include "runtime/text/chat/formatting.h"
#include "runtime/text/chat/operators.h"
#include "runtime/text/chat/printing.h"
#include "runtime/text/chat/string_methods.h"
#include "runtime/text/utf8.h"

namespace headway::text::chat {
namespace {

template <absl::StatusOr<Value> (*kFunction)(Runtime&, const MarkedText&)>
absl::StatusOr<Value> Plain(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("the filter", arguments, {}).status());
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText text, ToText(runtime, input));
  return kFunction(runtime, text);
}

absl::StatusOr<Value> StringFilter(Runtime& runtime, const MarkedText& text) {
  return runtime.MakeString(text);
}

absl::StatusOr<Value> Trim(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("trim", arguments, {"chars"}));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* characters, bound.TextOr(0));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText text, ToText(runtime, input));
  const std::string_view set = characters->bytes();
  HEADWAY_RETURN_IF_ERROR(runtime.budget().Step(set.size()));
  return runtime.MakeString(Strip(text, bound.has(0) ? &set : nullptr, Side::kBoth));
}

absl::StatusOr<Value> ReplaceFilter(Runtime& runtime, const Value& input,
                                    const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("replace", arguments, {"old", "new", "count"}, 2));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText text, ToText(runtime, input));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText from, ToText(runtime, *bound[0]));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText to, ToText(runtime, *bound[1]));
  HEADWAY_ASSIGN_OR_RETURN(const int64_t count, bound.IntOr(2, -1));
  return Replace(runtime, text, from, to, count);
}

// Unlike the method, this one begins a word after white space, '-' and opening brackets only.
absl::StatusOr<Value> Title(Runtime& runtime, const MarkedText& text) {
  TextBuilder builder(runtime);
  const std::string_view bytes = text.bytes();
  size_t begin = 0;
  const auto flush = [&](size_t end) -> absl::Status {
    if (begin >= end) return absl::OkStatus();
    const size_t rest = begin + Utf8Length(bytes[begin]);
    HEADWAY_ASSIGN_OR_RETURN(const Value first, ToUpper(runtime, text.Range(begin, rest)));
    HEADWAY_ASSIGN_OR_RETURN(const Value others, ToLower(runtime, text.Range(rest, end)));
    builder.Append(*first.string());
    builder.Append(*others.string());
    return absl::OkStatus();
  };
  for (size_t i = 0; i < bytes.size();) {
    const size_t at = i;
    const char32_t c = NextCodePoint(bytes, &i);
    if (!IsSpace(c) && c != '-' && c != '(' && c != '{' && c != '[' && c != '<') continue;
    HEADWAY_RETURN_IF_ERROR(flush(at));
    builder.AppendRange(text, at, i);
    begin = i;
  }
  HEADWAY_RETURN_IF_ERROR(flush(bytes.size()));
  return builder.Finish();
}

absl::StatusOr<Value> Escape(Runtime& runtime, const MarkedText& text) {
  TextBuilder builder(runtime);
  const std::string_view bytes = text.bytes();
  size_t done = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const std::string_view entity = bytes[i] == '&'    ? "&amp;"
                                    : bytes[i] == '<'  ? "&lt;"
                                    : bytes[i] == '>'  ? "&gt;"
                                    : bytes[i] == '"'  ? "&#34;"
                                    : bytes[i] == '\'' ? "&#39;"
                                                       : "";
    if (entity.empty()) continue;
    builder.AppendRange(text, done, i);
    builder.Append(entity, text.trusted_at(i));
    done = i + 1;
  }
  builder.AppendRange(text, done, bytes.size());
  return builder.Finish();
}

absl::StatusOr<Value> Safe(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return input;  // nothing is ever escaped by itself
}

absl::StatusOr<Value> Indent(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("indent", arguments, {"width", "first", "blank"}));
  HEADWAY_ASSIGN_OR_RETURN(MarkedText text, ToText(runtime, input));
  MarkedText indention;
  if (bound.has(0) && bound[0]->is_string()) {
    indention = *bound[0]->string();
  } else {
    HEADWAY_ASSIGN_OR_RETURN(const int64_t width, bound.IntOr(0, 4));
    if (width > 1000) return TemplateError("indent(width) must be at most 1000");
    indention = MarkedText(std::string(std::max<int64_t>(width, 0), ' '), true);
  }
  const bool blank = bound.TruthOr(2, false);
  TextBuilder builder(runtime);
  if (bound.TruthOr(1, false)) builder.Append(indention);
  const std::string_view bytes = text.bytes();
  for (size_t begin = 0; begin <= bytes.size();) {
    const size_t end = std::min(bytes.find('\n', begin), bytes.size());
    if (begin > 0) {
      builder.AppendRange(text, begin - 1, begin);  // the newline, with its mark
      if (end > begin || blank) builder.Append(indention);
    }
    builder.AppendRange(text, begin, end);
    begin = end + 1;
  }
  return builder.Finish();
}

absl::StatusOr<Value> Truncate(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(
      const Bound bound,
      Bound::Bind("truncate", arguments, {"length", "killwords", "end", "leeway"}));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText text, ToText(runtime, input));
  HEADWAY_ASSIGN_OR_RETURN(const int64_t length, bound.IntOr(0, 255));
  const MarkedText dots("...", true);
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* end, bound.TextOr(2, &dots));
  HEADWAY_ASSIGN_OR_RETURN(const int64_t leeway, bound.IntOr(3, 5));
  if (length < 0 || leeway < 0) return TemplateError("truncate: length and leeway must be >= 0");
  if (static_cast<int64_t>(CountCharacters(text.bytes())) <= length + leeway) return input;
  const int64_t kept = length - static_cast<int64_t>(CountCharacters(end->bytes()));
  if (kept < 0) return TemplateError("truncate: length is less than that of end");
  size_t cut = CharacterOffset(text.bytes(), kept);
  if (!bound.TruthOr(1, false)) {
    const size_t space = std::string_view(text.bytes()).substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  TextBuilder builder(runtime);
  builder.AppendRange(text, 0, cut);
  builder.Append(*end);
  return builder.Finish();
}

absl::StatusOr<Value> Center(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("center", arguments, {"width"}));
  HEADWAY_ASSIGN_OR_RETURN(const int64_t width, bound.IntOr(0, 80));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText text, ToText(runtime, input));
  HEADWAY_ASSIGN_OR_RETURN(const Value string, runtime.MakeString(text));
  return FindStringMethod("center")(runtime, string, {.positional = {Value(Int{width})}});
}

absl::StatusOr<Value> Format(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!arguments.named.empty()) {
    return TemplateError("format: named arguments are not supported");
  }
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText text, ToText(runtime, input));
  return FormatPercent(runtime, text, arguments.positional);
}

absl::StatusOr<Value> WordCount(Runtime& runtime, const MarkedText& text) {
  Int count = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = NextCodePoint(text.bytes(), &i);
    const bool is_word = c == '_' || IsLetter(c) || IsNumeric(c);
    count += is_word && !in_word;
    in_word = is_word;
  }
  return Value(count);
}

absl::StatusOr<Value> ToJson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(
      const Bound bound,
      Bound::Bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonFormat format;
  format.ensure_ascii = bound.TruthOr(0, false);
  HEADWAY_ASSIGN_OR_RETURN(const int64_t indent, bound.IntOr(1, -1));
  if (indent > 100) return TemplateError("tojson(indent) must be at most 100");
  format.indent = bound.has(1) ? static_cast<int>(std::max<int64_t>(indent, 0)) : -1;
  format.sort_keys = bound.TruthOr(3, false);
  format.item_separator = MarkedText(format.indent < 0 ? ", " : ",", true);
  format.key_separator = MarkedText(": ", true);
  if (bound.has(2)) {
    const List* pair = bound[2]->list();
    if (pair == nullptr || pair->items.size() != 2 || !pair->items[0].is_string() ||
        !pair->items[1].is_string()) {
      return TemplateError("tojson(separators) must be two strings");
    }
    format.item_separator = *pair->items[0].string();
    format.key_separator = *pair->items[1].string();
  }
  TextBuilder builder(runtime);
  HEADWAY_RETURN_IF_ERROR(AppendJson(runtime, input, format, &builder));
  return builder.Finish();
}

}  // namespace

Filter FindTextFilter(std::string_view name) {
  static const auto& filters = *new absl::flat_hash_map<std::string, Filter>{
      {"capitalize", Plain<Capitalize>},
      {"center", Center},
      {"e", Plain<Escape>},
      {"escape", Plain<Escape>},
      {"forceescape", Plain<Escape>},
      {"format", Format},
      {"indent", Indent},
      {"lower", Plain<ToLower>},
      {"replace", ReplaceFilter},
      {"safe", Safe},
      {"string", Plain<StringFilter>},
      {"title", Plain<Title>},
      {"tojson", ToJson},
      {"trim", Trim},
      {"truncate", Truncate},
      {"upper", Plain<ToUpper>},
      {"wordcount", Plain<WordCount>},
  };
  const auto it = filters.find(ToAbsl(name));
  return it == filters.end() ? nullptr : it->second;
}

}  // namespace headway::text::chat
