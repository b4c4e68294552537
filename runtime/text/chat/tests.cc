// What stands behind `is`.
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/text/chat/arguments.h"
#include "runtime/text/chat/filters.h"
#include "runtime/text/chat/operators.h"
#include "runtime/text/chat/printing.h"
#include "runtime/text/chat/string_methods.h"

namespace headway::text::chat {
namespace {

// A test without arguments.
template <bool (*kHolds)(const Value&)>
absl::StatusOr<bool> Plain(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("the test", arguments, {}).status());
  return kHolds(input);
}

bool IsDefined(const Value& v) { return !v.is_undefined(); }
bool IsUndefined(const Value& v) { return v.is_undefined(); }
bool IsNone(const Value& v) { return v.is_none(); }
bool IsBoolean(const Value& v) { return v.is_bool(); }
bool IsTrue(const Value& v) { return v.is_bool() && v.as_bool(); }
bool IsFalse(const Value& v) { return v.is_bool() && !v.as_bool(); }
bool IsInteger(const Value& v) { return v.is_int(); }
bool IsFloat(const Value& v) { return v.is_float(); }
bool IsNumber(const Value& v) { return v.is_number(); }
bool IsString(const Value& v) { return v.is_string(); }
bool IsMapping(const Value& v) { return v.dict() != nullptr; }
bool IsCallable(const Value& v) { return v.object() != nullptr && v.object()->callable(); }
bool IsEscaped(const Value& v) { return false; }
// An undefined value can be iterated, too: it is empty.
bool IsIterable(const Value& v) {
  return v.is_undefined() || v.is_string() || v.list() != nullptr || v.dict() != nullptr;
}
bool IsSequence(const Value& v) {
  const List* list = v.list();
  return IsIterable(v) &&
         (list == nullptr || list->kind == List::Kind::kList || list->kind == List::Kind::kTuple);
}

// Whether input % divisor == remainder.
absl::StatusOr<bool> HasRemainder(Runtime& runtime, const Value& input, const Value& divisor,
                                  Int remainder) {
  HEADWAY_ASSIGN_OR_RETURN(const Value rest, Apply(runtime, Arithmetic::kModulo, input, divisor));
  return Equal(runtime, rest, Value(remainder));
}

template <int kRemainder>
absl::StatusOr<bool> Parity(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("the test", arguments, {}).status());
  return HasRemainder(runtime, input, Value(Int{2}), kRemainder);
}

absl::StatusOr<bool> DivisibleBy(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("divisibleby", arguments, {"num"}, 1));
  return HasRemainder(runtime, input, *bound[0], 0);
}

absl::StatusOr<bool> In(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("in", arguments, {"seq"}, 1));
  return Contains(runtime, *bound[0], input);
}

template <bool kWanted>
absl::StatusOr<bool> EqualTo(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("eq", arguments, {"other"}, 1));
  HEADWAY_ASSIGN_OR_RETURN(const bool equal, Equal(runtime, input, *bound[0]));
  return equal == kWanted;
}

template <bool (*kHolds)(int)>
absl::StatusOr<bool> Ordered(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("the test", arguments, {"other"}, 1));
  HEADWAY_ASSIGN_OR_RETURN(const int order, Compare(runtime, input, *bound[0]));
  return kHolds(order);
}

bool IsLess(int order) { return order < 0; }
bool IsLessOrEqual(int order) { return order <= 0; }
bool IsGreater(int order) { return order > 0; }
bool IsGreaterOrEqual(int order) { return order >= 0; }

absl::StatusOr<bool> SameAs(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("sameas", arguments, {"other"}, 1));
  const Value& other = *bound[0];
  if (input.list() != nullptr || input.dict() != nullptr || input.object() != nullptr) {
    return input.list() == other.list() && input.dict() == other.dict() &&
           input.object() == other.object();
  }
  if (input.type_name() != other.type_name()) return false;
  return Equal(runtime, input, other);
}

absl::StatusOr<bool> HasCase(Runtime& runtime, const Value& input, const Arguments& arguments,
                             std::string_view method) {
  HEADWAY_ASSIGN_OR_RETURN(MarkedText text, ToText(runtime, input));
  HEADWAY_ASSIGN_OR_RETURN(const Value string, runtime.MakeString(std::move(text)));
  HEADWAY_ASSIGN_OR_RETURN(const Value result,
                           FindStringMethod(method)(runtime, string, arguments));
  return result.Truth();
}

absl::StatusOr<bool> Upper(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return HasCase(runtime, input, arguments, "isupper");
}

absl::StatusOr<bool> Lower(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return HasCase(runtime, input, arguments, "islower");
}

template <auto kFind>
absl::StatusOr<bool> Exists(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return input.is_string() && kFind(input.string()->bytes()).ok();
}

}  // namespace

absl::StatusOr<Test> FindTest(std::string_view name) {
  static const auto& tests = *new absl::flat_hash_map<std::string, Test>{
      {"!=", EqualTo<false>},
      {"<", Ordered<IsLess>},
      {"<=", Ordered<IsLessOrEqual>},
      {"==", EqualTo<true>},
      {">", Ordered<IsGreater>},
      {">=", Ordered<IsGreaterOrEqual>},
      {"boolean", Plain<IsBoolean>},
      {"callable", Plain<IsCallable>},
      {"defined", Plain<IsDefined>},
      {"divisibleby", DivisibleBy},
      {"eq", EqualTo<true>},
      {"equalto", EqualTo<true>},
      {"escaped", Plain<IsEscaped>},
      {"even", Parity<0>},
      {"false", Plain<IsFalse>},
      {"filter", Exists<FindFilter>},
      {"float", Plain<IsFloat>},
      {"ge", Ordered<IsGreaterOrEqual>},
      {"greaterthan", Ordered<IsGreater>},
      {"gt", Ordered<IsGreater>},
      {"in", In},
      {"integer", Plain<IsInteger>},
      {"iterable", Plain<IsIterable>},
      {"le", Ordered<IsLessOrEqual>},
      {"lessthan", Ordered<IsLess>},
      {"lower", Lower},
      {"lt", Ordered<IsLess>},
      {"mapping", Plain<IsMapping>},
      {"ne", EqualTo<false>},
      {"none", Plain<IsNone>},
      {"number", Plain<IsNumber>},
      {"odd", Parity<1>},
      {"sameas", SameAs},
      {"sequence", Plain<IsSequence>},
      {"string", Plain<IsString>},
      {"test", Exists<FindTest>},
      {"true", Plain<IsTrue>},
      {"undefined", Plain<IsUndefined>},
      {"upper", Upper},
  };
  const auto it = tests.find(ToAbsl(name));
  if (it != tests.end()) return it->second;
  return TemplateError(absl::StrCat("No test named '", ToAbsl(name), "'"));
}

}  // namespace headway::text::chat
