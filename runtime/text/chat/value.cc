#include "runtime/text/chat/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"

namespace headway::text::chat {

Value Value::MakeUndefined(std::string why) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(why))};
  return value;
}

Value Value::Literal(std::string_view text) {
  auto string = std::make_shared<String>();
  string->text = MarkedText(text, /*trusted=*/true);
  return Value(std::shared_ptr<const String>(std::move(string)));
}

const MarkedText* Value::string() const {
  const auto* p = std::get_if<std::shared_ptr<const String>>(&data_);
  return p == nullptr ? nullptr : &(*p)->text;
}

const List* Value::list() const {
  const auto* p = std::get_if<std::shared_ptr<const List>>(&data_);
  return p == nullptr ? nullptr : p->get();
}

std::shared_ptr<const List> Value::shared_list() const {
  const auto* p = std::get_if<std::shared_ptr<const List>>(&data_);
  return p == nullptr ? nullptr : *p;
}

const Dict* Value::dict() const {
  const auto* p = std::get_if<std::shared_ptr<const Dict>>(&data_);
  return p == nullptr ? nullptr : p->get();
}

Object* Value::object() const {
  const auto* p = std::get_if<std::shared_ptr<Object>>(&data_);
  return p == nullptr ? nullptr : p->get();
}

std::string Value::undefined_why() const {
  const auto* undefined = std::get_if<Undefined>(&data_);
  if (undefined == nullptr || undefined->why == nullptr) return "a value is undefined";
  return *undefined->why;
}

std::string_view Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_string()) return "str";
  if (dict() != nullptr) return "dict";
  if (const List* l = list()) {
    switch (l->kind) {
      case List::Kind::kList:
        return "list";
      case List::Kind::kTuple:
        return "tuple";
      case List::Kind::kView:
        return "dict view";
      case List::Kind::kGenerator:
        return "generator";
    }
  }
  return object()->type_name();
}

bool Value::Truth() const {
  if (is_undefined() || is_none()) return false;
  if (is_bool()) return as_bool();
  if (is_int()) return as_int() != 0;
  if (is_float()) return as_double() != 0;
  if (const MarkedText* s = string()) return !s->empty();
  if (const List* l = list()) return l->kind == List::Kind::kGenerator || !l->items.empty();
  if (const Dict* d = dict()) return !d->entries.empty();
  return true;
}

int Value::depth() const {
  if (const List* l = list()) return l->depth;
  if (const Dict* d = dict()) return d->depth;
  return 0;
}

std::optional<std::string> Dict::HashKey(const Value& key) {
  if (const MarkedText* s = key.string()) return absl::StrCat("s", s->bytes());
  if (key.is_none()) return "n";
  if (key.is_undefined()) return "u";
  if (key.is_float()) {
    const double d = key.as_double();
    if (d == std::floor(d) && std::fabs(d) < 1e18) {
      return absl::StrCat("i", static_cast<int64_t>(d));
    }
    uint64_t bits;
    std::memcpy(&bits, &d, sizeof bits);
    return absl::StrCat("f", bits);
  }
  if (key.is_number()) {
    const Int i = key.as_int();
    const auto low = static_cast<int64_t>(i);
    if (low == i) return absl::StrCat("i", low);
    return absl::StrCat("I", static_cast<int64_t>(i >> 64), ",", static_cast<uint64_t>(i));
  }
  const List* list = key.list();
  if (list != nullptr && list->kind == List::Kind::kTuple) {
    std::string hash = "(";
    for (const Value& item : list->items) {
      // Tuples in tuples are no keys here: shared parts would make the hash grow exponentially.
      if (item.list() != nullptr) return std::nullopt;
      const std::optional<std::string> part = HashKey(item);
      if (!part) return std::nullopt;
      absl::StrAppend(&hash, part->size(), ":", *part);
    }
    return hash;
  }
  return std::nullopt;
}

const Value* Dict::Find(const Value& key) const {
  const std::optional<std::string> hash = HashKey(key);
  if (!hash) return nullptr;
  const auto it = index.find(*hash);
  return it == index.end() ? nullptr : &entries[it->second].second;
}

const Value* Dict::Find(std::string_view key) const {
  const auto it = index.find(absl::StrCat("s", ToAbsl(key)));
  return it == index.end() ? nullptr : &entries[it->second].second;
}

bool Dict::Set(Value key, Value value) {
  std::optional<std::string> hash = HashKey(key);
  if (!hash) return false;
  depth = std::max({depth, 1 + key.depth(), 1 + value.depth()});
  const auto [it, is_new] = index.try_emplace(*std::move(hash), entries.size());
  if (is_new) {
    entries.emplace_back(std::move(key), std::move(value));
  } else {
    entries[it->second].second = std::move(value);
  }
  return true;
}

absl::StatusOr<Value> Object::Call(Runtime& runtime, const Arguments& arguments) {
  return TemplateError(absl::StrCat("'", ToAbsl(type_name()), "' object is not callable"));
}

namespace {

absl::Status TooDeep(int limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the chat template nests values more than ", limit, " deep"));
}

}  // namespace

absl::StatusOr<Value> Runtime::MakeString(MarkedText text) {
  auto string = std::make_shared<String>();
  HEADWAY_RETURN_IF_ERROR(string->charge.Grow(&budget_, sizeof(String) + text.heap_bytes()));
  HEADWAY_RETURN_IF_ERROR(budget_.Step(text.size()));
  string->text = std::move(text);
  return Value(std::shared_ptr<const String>(std::move(string)));
}

absl::StatusOr<Value> Runtime::MakeList(std::vector<Value> items, List::Kind kind) {
  auto list = std::make_shared<List>();
  const size_t bytes = items.size() * sizeof(Value);
  HEADWAY_RETURN_IF_ERROR(list->charge.Grow(&budget_, sizeof(List) + bytes));
  HEADWAY_RETURN_IF_ERROR(budget_.Step(bytes));
  for (const Value& item : items) list->depth = std::max(list->depth, 1 + item.depth());
  if (list->depth > limits().depth) return TooDeep(limits().depth);
  list->items = std::move(items);
  list->kind = kind;
  return Value(std::shared_ptr<const List>(std::move(list)));
}

absl::StatusOr<Value> Runtime::MakeDict(std::shared_ptr<Dict> dict) {
  size_t bytes = sizeof(Dict);
  for (const auto& [key, value] : dict->entries) {
    bytes += 4 * sizeof(Value);
    if (const MarkedText* s = key.string()) bytes += s->size();
  }
  HEADWAY_RETURN_IF_ERROR(dict->charge.Grow(&budget_, bytes));
  HEADWAY_RETURN_IF_ERROR(budget_.Step(bytes));
  if (dict->depth > limits().depth) return TooDeep(limits().depth);
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

bool TextBuilder::Fits(size_t bytes) {
  constexpr size_t kAppendBytes = 32;  // what one call costs, as bytes of work
  runtime_.budget().Work(kAppendBytes + bytes);
  if (bytes > runtime_.budget().free_bytes() || runtime_.budget().exhausted()) overflowed_ = true;
  return !overflowed_;
}

// Takes what the text has grown by, marks included.
void TextBuilder::Account() {
  const size_t grown = text_.heap_bytes() - charged_;
  charged_ += grown;
  if (!charge_.Grow(&runtime_.budget(), grown).ok()) overflowed_ = true;
}

void TextBuilder::Append(std::string_view bytes, bool trusted) {
  if (!Fits(bytes.size())) return;
  text_.Append(bytes, trusted);
  Account();
}

void TextBuilder::AppendRange(const MarkedText& text, size_t begin, size_t end) {
  if (begin >= end || !Fits(end - begin)) return;
  text_.AppendRange(text, begin, end);
  Account();
}

absl::Status TextBuilder::Check() const {
  if (!overflowed_) return absl::OkStatus();
  HEADWAY_RETURN_IF_ERROR(runtime_.budget().Step());
  return runtime_.budget().OutOfMemory();
}

absl::StatusOr<MarkedText> TextBuilder::TakeText() {
  HEADWAY_RETURN_IF_ERROR(Check());
  charge_ = Charge();
  charged_ = 0;
  return std::exchange(text_, {});
}

absl::StatusOr<Value> TextBuilder::Finish() {
  HEADWAY_ASSIGN_OR_RETURN(MarkedText text, TakeText());
  return runtime_.MakeString(std::move(text));
}

absl::Status TemplateError(std::string_view message) {
  return absl::InvalidArgumentError(ToAbsl(message));
}

absl::Status UndefinedError(const Value& value) { return TemplateError(value.undefined_why()); }

}  // namespace headway::text::chat
