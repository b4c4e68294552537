#include "runtime/text/chat/operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/text/chat/attributes.h"
#include "runtime/text/chat/characters.h"
#include "runtime/text/chat/formatting.h"
#include "runtime/text/chat/printing.h"
#include "runtime/text/utf8.h"

namespace headway::text::chat {
namespace {

const char* Symbol(Arithmetic op) {
  switch (op) {
    case Arithmetic::kAdd:
      return "+";
    case Arithmetic::kSubtract:
      return "-";
    case Arithmetic::kMultiply:
      return "*";
    case Arithmetic::kDivide:
      return "/";
    case Arithmetic::kFloorDivide:
      return "//";
    case Arithmetic::kModulo:
      return "%";
    case Arithmetic::kPower:
      return "**";
  }
  return "?";
}

absl::Status BadOperands(Arithmetic op, const Value& left, const Value& right) {
  if (op == Arithmetic::kAdd && (left.is_string() || left.list() != nullptr)) {
    return TemplateError(absl::StrCat("can only concatenate ", ToAbsl(left.type_name()), " (not \"",
                                      ToAbsl(right.type_name()), "\") to ",
                                      ToAbsl(left.type_name())));
  }
  return TemplateError(absl::StrCat("unsupported operand type(s) for ", Symbol(op), ": '",
                                    ToAbsl(left.type_name()), "' and '", ToAbsl(right.type_name()),
                                    "'"));
}

absl::Status IntegerTooLarge() {
  return absl::ResourceExhaustedError(
      "the chat template computes an integer of more than 127 bits");
}

absl::Status DivisionByZero() { return TemplateError("division by zero"); }

absl::StatusOr<Int> Power(Int base, Int exponent) {
  Int result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(result, base, &result))
      return IntegerTooLarge();
    exponent /= 2;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return IntegerTooLarge();
  }
  return result;
}

absl::StatusOr<Value> ApplyInts(Arithmetic op, Int a, Int b, bool from_request) {
  Int result = 0;
  switch (op) {
    case Arithmetic::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return IntegerTooLarge();
      break;
    case Arithmetic::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return IntegerTooLarge();
      break;
    case Arithmetic::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return IntegerTooLarge();
      break;
    case Arithmetic::kDivide:
      if (b == 0) return DivisionByZero();
      return Value(static_cast<double>(a) / static_cast<double>(b), from_request);
    case Arithmetic::kFloorDivide:
      if (b == 0) return DivisionByZero();
      if (b == -1) return ApplyInts(Arithmetic::kSubtract, 0, a, from_request);  // may overflow
      result = a / b;
      if (a % b != 0 && (a < 0) != (b < 0)) --result;
      break;
    case Arithmetic::kModulo:
      if (b == 0) return DivisionByZero();
      result = b == -1 ? 0 : a % b;
      if (result != 0 && (result < 0) != (b < 0)) result += b;
      break;
    case Arithmetic::kPower: {
      if (b < 0) {
        if (a == 0) return DivisionByZero();
        return Value(std::pow(static_cast<double>(a), static_cast<double>(b)), from_request);
      }
      if (a == 0 || a == 1 || a == -1) {  // whatever the exponent
        result = b == 0 ? 1 : a == -1 && b % 2 == 0 ? 1 : a;
        break;
      }
      HEADWAY_ASSIGN_OR_RETURN(result, Power(a, b));
      break;
    }
  }
  return Value(result, from_request);
}

absl::StatusOr<Value> ApplyDoubles(Arithmetic op, double a, double b, bool from_request) {
  double result = 0;
  switch (op) {
    case Arithmetic::kAdd:
      result = a + b;
      break;
    case Arithmetic::kSubtract:
      result = a - b;
      break;
    case Arithmetic::kMultiply:
      result = a * b;
      break;
    case Arithmetic::kDivide:
      if (b == 0) return DivisionByZero();
      result = a / b;
      break;
    case Arithmetic::kFloorDivide:
      if (b == 0) return DivisionByZero();
      result = std::floor(a / b);
      break;
    case Arithmetic::kModulo:
      if (b == 0) return DivisionByZero();
      result = std::fmod(a, b);
      if (result != 0 && (result < 0) != (b < 0)) result += b;
      break;
    case Arithmetic::kPower:
      result = std::pow(a, b);
      break;
  }
  return Value(result, from_request);
}

absl::StatusOr<Value> Repeat(Runtime& runtime, const Value& sequence, const Value& times) {
  const Int count = std::max<Int>(times.as_int(), 0);
  const MarkedText* text = sequence.string();
  const List* list = sequence.list();
  const size_t size = text != nullptr ? text->heap_bytes() : list->items.size() * sizeof(Value);
  if (size > 0 && count > static_cast<Int>(runtime.budget().free_bytes() / size)) {
    return runtime.budget().OutOfMemory();
  }
  const auto repeats = static_cast<size_t>(size == 0 ? 0 : count);
  if (text != nullptr) {
    MarkedText result;
    for (size_t i = 0; i < repeats; ++i) result.Append(*text);
    return runtime.MakeString(std::move(result));
  }
  std::vector<Value> items;
  items.reserve(repeats * list->items.size());
  for (size_t i = 0; i < repeats; ++i) {
    items.insert(items.end(), list->items.begin(), list->items.end());
  }
  return runtime.MakeList(std::move(items), list->kind);
}

bool IsSequence(const Value& value) {
  const List* list = value.list();
  return value.is_string() ||
         (list != nullptr && (list->kind == List::Kind::kList || list->kind == List::Kind::kTuple));
}

absl::StatusOr<Value> Concatenate(Runtime& runtime, const Value& left, const Value& right) {
  if (left.is_string() && right.is_string()) {
    TextBuilder builder(runtime);
    builder.Append(*left.string());
    builder.Append(*right.string());
    return builder.Finish();
  }
  if (!IsSequence(left) || !IsSequence(right) || left.is_string() || right.is_string() ||
      left.list()->kind != right.list()->kind) {
    return BadOperands(Arithmetic::kAdd, left, right);
  }
  const List& a = *left.list();
  const List& b = *right.list();
  if ((a.items.size() + b.items.size()) * sizeof(Value) > runtime.budget().free_bytes()) {
    return runtime.budget().OutOfMemory();
  }
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return runtime.MakeList(std::move(items), a.kind);
}

}  // namespace

absl::StatusOr<Value> Apply(Runtime& runtime, Arithmetic op, const Value& left,
                            const Value& right) {
  if (left.is_undefined()) return UndefinedError(left);
  if (right.is_undefined()) return UndefinedError(right);
  const bool from_request = left.from_request() || right.from_request();
  if (left.is_number() && right.is_number()) {
    if (left.is_float() || right.is_float()) {
      return ApplyDoubles(op, left.as_double(), right.as_double(), from_request);
    }
    return ApplyInts(op, left.as_int(), right.as_int(), from_request);
  }
  if (op == Arithmetic::kAdd) return Concatenate(runtime, left, right);
  if (op == Arithmetic::kMultiply) {
    if (IsSequence(left) && right.is_number() && !right.is_float()) {
      return Repeat(runtime, left, right);
    }
    if (IsSequence(right) && left.is_number() && !left.is_float()) {
      return Repeat(runtime, right, left);
    }
  }
  if (op == Arithmetic::kModulo && left.is_string()) {
    const List* tuple = right.list();
    if (tuple != nullptr && tuple->kind == List::Kind::kTuple) {
      return FormatPercent(runtime, *left.string(), tuple->items);
    }
    return FormatPercent(runtime, *left.string(), {right});
  }
  return BadOperands(op, left, right);
}

absl::StatusOr<Value> Negate(const Value& value) {
  if (value.is_undefined()) return UndefinedError(value);
  if (value.is_float()) return Value(-value.as_double(), value.from_request());
  if (!value.is_number()) {
    return TemplateError(
        absl::StrCat("bad operand type for unary -: '", ToAbsl(value.type_name()), "'"));
  }
  return ApplyInts(Arithmetic::kSubtract, 0, value.as_int(), value.from_request());
}

absl::StatusOr<bool> Equal(Runtime& runtime, const Value& left, const Value& right) {
  HEADWAY_RETURN_IF_ERROR(runtime.budget().Step());
  if (left.is_number() && right.is_number()) {
    if (left.is_float() || right.is_float()) return left.as_double() == right.as_double();
    return left.as_int() == right.as_int();
  }
  if (const MarkedText* a = left.string()) {
    const MarkedText* b = right.string();
    if (b == nullptr || a->size() != b->size()) return false;
    runtime.budget().Work(a->size());
    return a->bytes() == b->bytes();
  }
  if (const List* a = left.list()) {
    const List* b = right.list();
    if (a == b) return true;
    if (b == nullptr || a->kind != b->kind || a->items.size() != b->items.size()) return false;
    for (size_t i = 0; i < a->items.size(); ++i) {
      HEADWAY_ASSIGN_OR_RETURN(const bool equal, Equal(runtime, a->items[i], b->items[i]));
      if (!equal) return false;
    }
    return true;
  }
  if (const Dict* a = left.dict()) {
    const Dict* b = right.dict();
    if (a == b) return true;
    if (b == nullptr || a->entries.size() != b->entries.size()) return false;
    for (const auto& [key, value] : a->entries) {
      if (const MarkedText* s = key.string()) runtime.budget().Work(s->size());
      const Value* other = b->Find(key);
      if (other == nullptr) return false;
      HEADWAY_ASSIGN_OR_RETURN(const bool equal, Equal(runtime, value, *other));
      if (!equal) return false;
    }
    return true;
  }
  if (left.object() != nullptr) return left.object() == right.object();
  return (left.is_none() && right.is_none()) || (left.is_undefined() && right.is_undefined());
}

absl::StatusOr<int> Compare(Runtime& runtime, const Value& left, const Value& right) {
  HEADWAY_RETURN_IF_ERROR(runtime.budget().Step());
  if (left.is_undefined()) return UndefinedError(left);
  if (right.is_undefined()) return UndefinedError(right);
  if (left.is_number() && right.is_number()) {
    if (left.is_float() || right.is_float()) {
      const double a = left.as_double();
      const double b = right.as_double();
      return a < b ? -1 : a > b ? 1 : 0;
    }
    return left.as_int() < right.as_int() ? -1 : left.as_int() > right.as_int() ? 1 : 0;
  }
  if (left.is_string() && right.is_string()) {
    // The order of UTF-8 bytes is that of code points.
    const std::string& a = left.string()->bytes();
    const std::string& b = right.string()->bytes();
    runtime.budget().Work(std::min(a.size(), b.size()));
    return a.compare(b) < 0 ? -1 : a == b ? 0 : 1;
  }
  const List* a = left.list();
  const List* b = right.list();
  if (a != nullptr && b != nullptr && a->kind == b->kind) {
    for (size_t i = 0; i < std::min(a->items.size(), b->items.size()); ++i) {
      HEADWAY_ASSIGN_OR_RETURN(const bool equal, Equal(runtime, a->items[i], b->items[i]));
      if (!equal) return Compare(runtime, a->items[i], b->items[i]);
    }
    return a->items.size() < b->items.size() ? -1 : a->items.size() > b->items.size() ? 1 : 0;
  }
  return TemplateError(absl::StrCat("'<' not supported between instances of '",
                                    ToAbsl(left.type_name()), "' and '", ToAbsl(right.type_name()),
                                    "'"));
}

absl::StatusOr<bool> Contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_undefined()) return false;
  if (const MarkedText* text = container.string()) {
    if (!item.is_string()) {
      return TemplateError(absl::StrCat("'in <string>' requires string as left operand, not ",
                                        ToAbsl(item.type_name())));
    }
    HEADWAY_RETURN_IF_ERROR(runtime.budget().Step(text->size()));
    return FindBytes(text->bytes(), item.string()->bytes(), 0) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    if (const MarkedText* s = item.string()) runtime.budget().Work(s->size());
    return dict->Find(item) != nullptr;
  }
  if (const List* list = container.list()) {
    for (const Value& each : list->items) {
      HEADWAY_ASSIGN_OR_RETURN(const bool equal, Equal(runtime, each, item));
      if (equal) return true;
    }
    return false;
  }
  return TemplateError(
      absl::StrCat("argument of type '", ToAbsl(container.type_name()), "' is not iterable"));
}

namespace {

// Byte offsets of the characters of a text, and its size at the end.
std::vector<size_t> CharacterOffsets(std::string_view bytes) {
  std::vector<size_t> offsets;
  offsets.reserve(bytes.size() + 1);
  for (size_t i = 0; i < bytes.size(); i += Utf8Length(bytes[i])) offsets.push_back(i);
  offsets.push_back(bytes.size());
  return offsets;
}

absl::StatusOr<Value> MissingItem(const Value& container, const Value& key) {
  const std::string type = absl::StrCat(ToAbsl(container.type_name()), " object");
  if (const MarkedText* name = key.string()) {
    return Value::MakeUndefined(
        absl::StrCat("'", type, "' has no attribute '", name->bytes().substr(0, 100), "'"));
  }
  return Value::MakeUndefined(absl::StrCat(type, " has no such element"));
}

}  // namespace

absl::StatusOr<Value> GetItem(Runtime& runtime, const Value& container, const Value& key) {
  if (container.is_undefined()) return UndefinedError(container);
  if (const Dict* dict = container.dict()) {
    if (const MarkedText* s = key.string()) runtime.budget().Work(s->size());
    if (const Value* value = dict->Find(key)) return *value;
  }
  const List* list = container.list();
  const bool has_elements = IsSequence(container);
  if (has_elements && key.is_number() && !key.is_float()) {
    Int index = key.as_int();
    Int size = 0;
    if (list != nullptr) {
      size = static_cast<Int>(list->items.size());
    } else {
      HEADWAY_RETURN_IF_ERROR(runtime.budget().Step(container.string()->size()));
      size = static_cast<Int>(CountCharacters(container.string()->bytes()));
    }
    if (index < 0) index += size;
    if (index < 0 || index >= size) {
      return Value::MakeUndefined(absl::StrCat(ToAbsl(container.type_name()),
                                               " object has no element ", FormatInt(key.as_int())));
    }
    if (list != nullptr) return list->items[static_cast<size_t>(index)];
    const MarkedText& text = *container.string();
    const size_t begin = CharacterOffset(text.bytes(), static_cast<size_t>(index));
    return runtime.MakeString(text.Range(begin, begin + Utf8Length(text.bytes()[begin])));
  }
  if (const MarkedText* name = key.string()) {
    HEADWAY_ASSIGN_OR_RETURN(const std::optional<Value> attribute,
                             BuiltinAttribute(container, name->bytes()));
    if (attribute) return *attribute;
  }
  return MissingItem(container, key);
}

absl::StatusOr<Value> GetSlice(Runtime& runtime, const Value& container,
                               const std::optional<Value>& begin, const std::optional<Value>& end,
                               const std::optional<Value>& step_value) {
  if (container.is_undefined()) return UndefinedError(container);
  if (!IsSequence(container)) {
    return TemplateError(
        absl::StrCat("'", ToAbsl(container.type_name()), "' object cannot be sliced"));
  }
  int64_t step = 1;
  if (step_value && !step_value->is_none()) {
    HEADWAY_ASSIGN_OR_RETURN(step, ToInt64(*step_value, "slice step"));
    if (step == 0) return TemplateError("slice step cannot be zero");
  }
  const MarkedText* text = container.string();
  const List* list = container.list();
  std::vector<size_t> offsets;
  int64_t size = 0;
  if (text != nullptr) {
    HEADWAY_RETURN_IF_ERROR(runtime.budget().Step(text->size()));
    if (text->size() * sizeof(size_t) > runtime.budget().free_bytes()) {
      return runtime.budget().OutOfMemory();
    }
    offsets = CharacterOffsets(text->bytes());
    size = static_cast<int64_t>(offsets.size()) - 1;
  } else {
    size = static_cast<int64_t>(list->items.size());
  }
  // As Python clamps them.
  const auto bound = [&](const std::optional<Value>& value,
                         int64_t otherwise) -> absl::StatusOr<int64_t> {
    if (!value || value->is_none()) return otherwise;
    HEADWAY_ASSIGN_OR_RETURN(int64_t i, ToInt64(*value, "slice index"));
    if (i < 0) i += size;
    return std::clamp<int64_t>(i, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
  };
  HEADWAY_ASSIGN_OR_RETURN(const int64_t first, bound(begin, step > 0 ? 0 : size - 1));
  HEADWAY_ASSIGN_OR_RETURN(const int64_t last, bound(end, step > 0 ? size : -1));
  if (text != nullptr && step == 1) {
    return runtime.MakeString(first < last ? text->Range(offsets[first], offsets[last])
                                           : MarkedText());
  }
  TextBuilder builder(runtime);
  std::vector<Value> items;
  for (int64_t i = first; step > 0 ? i < last : i > last; i += step) {
    if (text != nullptr) {
      builder.AppendRange(*text, offsets[i], offsets[i + 1]);
    } else {
      items.push_back(list->items[i]);
    }
    // A step that leads out of range must not overflow.
    if (step > 0 ? step > size - i : step < -1 - i) break;
  }
  if (text != nullptr) return builder.Finish();
  return runtime.MakeList(std::move(items), list->kind);
}

absl::StatusOr<std::shared_ptr<const List>> Iterate(Runtime& runtime, const Value& value) {
  if (std::shared_ptr<const List> list = value.shared_list()) {
    if (list->kind != List::Kind::kGenerator) return list;
    if (list->exhausted) return std::make_shared<const List>();
    list->exhausted = true;
    return list;
  }
  std::vector<Value> items;
  if (const MarkedText* text = value.string()) {
    const size_t needed = text->size() * (sizeof(Value) + sizeof(String));
    if (needed > runtime.budget().free_bytes()) return runtime.budget().OutOfMemory();
    for (size_t i = 0; i < text->size();) {
      const size_t next = i + Utf8Length(text->bytes()[i]);
      HEADWAY_ASSIGN_OR_RETURN(Value character, runtime.MakeString(text->Range(i, next)));
      items.push_back(std::move(character));
      i = next;
    }
  } else if (const Dict* dict = value.dict()) {
    for (const auto& entry : dict->entries) items.push_back(entry.first);
  } else if (!value.is_undefined()) {
    return TemplateError(absl::StrCat("'", ToAbsl(value.type_name()), "' object is not iterable"));
  }
  HEADWAY_ASSIGN_OR_RETURN(const Value list, runtime.MakeList(std::move(items)));
  return list.shared_list();
}

absl::StatusOr<Int> Length(const Value& value) {
  if (value.is_undefined()) return Int{0};
  if (const MarkedText* text = value.string()) {
    return static_cast<Int>(CountCharacters(text->bytes()));
  }
  const List* list = value.list();
  if (list != nullptr && list->kind != List::Kind::kGenerator) {
    return static_cast<Int>(list->items.size());
  }
  if (const Dict* dict = value.dict()) return static_cast<Int>(dict->entries.size());
  return TemplateError(
      absl::StrCat("object of type '", ToAbsl(value.type_name()), "' has no len()"));
}

absl::StatusOr<int64_t> ToInt64(const Value& value, std::string_view what) {
  if (value.is_undefined()) return UndefinedError(value);
  constexpr Int kLimit = Int{1} << 62;
  if (!value.is_number() || value.is_float() || value.as_int() < -kLimit ||
      value.as_int() > kLimit) {
    return TemplateError(absl::StrCat(ToAbsl(what), " must be an integer of at most 62 bits, not ",
                                      ToAbsl(value.type_name())));
  }
  return static_cast<int64_t>(value.as_int());
}

}  // namespace headway::text::chat
