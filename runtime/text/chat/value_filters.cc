// Filters for single values: numbers, defaults, lengths.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/text/chat/arguments.h"
#include "runtime/text/chat/attributes.h"
#include "runtime/text/chat/filters.h"
#include "runtime/text/chat/operators.h"
#include "runtime/text/chat/string_methods.h"

namespace headway::text::chat {
namespace {

absl::StatusOr<Value> Default(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("default", arguments, {"default_value", "boolean"}));
  if (!input.is_undefined() && (input.Truth() || !bound.TruthOr(1, false))) return input;
  return bound[0] == nullptr ? Value::Literal("") : *bound[0];
}

absl::StatusOr<Value> LengthFilter(Runtime& runtime, const Value& input,
                                   const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("length", arguments, {}).status());
  if (const MarkedText* text = input.string()) runtime.budget().Work(text->size());
  HEADWAY_ASSIGN_OR_RETURN(const Int length, Length(input));
  return Value(length);
}

absl::StatusOr<Value> Attr(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("attr", arguments, {"name"}, 1));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* name, bound.TextOr(0));
  if (input.is_undefined()) return UndefinedError(input);
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<Value> attribute,
                           BuiltinAttribute(input, name->bytes()));
  if (attribute) return *attribute;
  return Value::MakeUndefined(
      absl::StrCat("there is no attribute '", name->bytes().substr(0, 100), "'"));
}

absl::StatusOr<Value> Abs(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("abs", arguments, {}).status());
  if (input.is_float()) return Value(std::fabs(input.as_double()), input.from_request());
  if (!input.is_number()) {
    return TemplateError(absl::StrCat("abs of '", ToAbsl(input.type_name()), "'"));
  }
  if (input.as_int() < 0) return Negate(input);
  return Value(input.as_int(), input.from_request());
}

absl::StatusOr<Value> Round(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("round", arguments, {"precision", "method"}));
  HEADWAY_ASSIGN_OR_RETURN(const int64_t precision, bound.IntOr(0, 0));
  const MarkedText common("common", true);
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* method, bound.TextOr(1, &common));
  if (!input.is_number()) {
    return TemplateError(absl::StrCat("round of '", ToAbsl(input.type_name()), "'"));
  }
  if (precision < -300 || precision > 300) {
    return TemplateError("round(precision) must be from -300 to 300");
  }
  const double value = input.as_double();
  const double scale = std::pow(10.0, static_cast<double>(precision));
  double result = value;
  if (method->bytes() == "ceil") {
    result = std::ceil(value * scale) / scale;
  } else if (method->bytes() == "floor") {
    result = std::floor(value * scale) / scale;
  } else if (method->bytes() != "common") {
    return TemplateError("round(method) must be common, ceil or floor");
  } else if (!std::isfinite(value)) {
    // stays
  } else if (precision < 0) {
    result = std::nearbyint(value * scale) / scale;
  } else {
    // Through decimal digits: correctly rounded, halves to even.
    char digits[700];
    std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), value);
    result = std::strtod(digits, nullptr);
  }
  return Value(result, input.from_request());
}

// The number that a text spells, as Python's float() reads it.
std::optional<double> ParseDouble(const MarkedText& text) {
  std::string trimmed = Strip(text, nullptr, Side::kBoth).bytes();
  const char* begin = trimmed.data();
  const char* end = begin + trimmed.size();
  if (begin != end && *begin == '+') ++begin;
  double value = 0;
  const auto result = std::from_chars(begin, end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

std::optional<Int> ParseInt(const MarkedText& text, int base) {
  const std::string trimmed = Strip(text, nullptr, Side::kBoth).bytes();
  const char* begin = trimmed.data();
  const char* end = begin + trimmed.size();
  if (begin != end && *begin == '+') ++begin;
  if (base == 16 && end - begin > 2 && begin[0] == '0' && (begin[1] | 0x20) == 'x') begin += 2;
  int64_t value = 0;
  const auto result = std::from_chars(begin, end, value, base);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

absl::StatusOr<Value> ToInt(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("int", arguments, {"default", "base"}));
  HEADWAY_ASSIGN_OR_RETURN(const int64_t base, bound.IntOr(1, 10));
  if (base < 2 || base > 36) return TemplateError("int(base) must be from 2 to 36");
  const Value otherwise = bound[0] == nullptr ? Value(Int{0}) : *bound[0];
  if (input.is_number() && !input.is_float()) return Value(input.as_int(), input.from_request());
  std::optional<double> number;
  bool from_request = input.from_request();
  if (input.is_float()) {
    number = input.as_double();
  } else if (const MarkedText* text = input.string()) {
    from_request = !text->all_trusted();
    if (const auto value = ParseInt(*text, static_cast<int>(base))) {
      return Value(*value, from_request);
    }
    number = ParseDouble(*text);
  }
  if (!number || !(std::fabs(*number) < 0x1p120)) return otherwise;
  return Value(static_cast<Int>(*number), from_request);
}

absl::StatusOr<Value> ToFloat(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("float", arguments, {"default"}));
  if (input.is_number()) return Value(input.as_double(), input.from_request());
  if (const MarkedText* text = input.string()) {
    if (const auto value = ParseDouble(*text)) return Value(*value, !text->all_trusted());
  }
  return bound[0] == nullptr ? Value(0.0) : *bound[0];
}

}  // namespace

Filter FindValueFilter(std::string_view name) {
  static const auto& filters = *new absl::flat_hash_map<std::string, Filter>{
      {"abs", Abs},   {"attr", Attr},           {"count", LengthFilter},
      {"d", Default}, {"default", Default},     {"float", ToFloat},
      {"int", ToInt}, {"length", LengthFilter}, {"round", Round},
  };
  const auto it = filters.find(ToAbsl(name));
  return it == filters.end() ? nullptr : it->second;
}

}  // namespace headway::text::chat
