#ifndef HEADWAY_RUNTIME_TEXT_CHAT_VALUE_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_VALUE_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "runtime/text/chat/budget.h"
#include "runtime/text/chat/marked_text.h"

namespace headway::text::chat {

// The values of the template language: Python's, as far as templates can tell.

using Int = __int128;  // results that need more are an error

class Value;
struct List;
struct Dict;
class Object;

// What a name or attribute that does not exist evaluates to. Prints as nothing; using it fails with
// `why`, e.g. "'tools' is undefined".
struct Undefined {
  std::shared_ptr<const std::string> why;
};
struct None {};

struct String {
  MarkedText text;
  Charge charge;
};

class Value {
 public:
  Value() = default;  // undefined without a reason
  Value(None) : data_(None()) {}
  Value(bool value, bool from_request = false) : data_(value), from_request_(from_request) {}
  Value(Int value, bool from_request = false) : data_(value), from_request_(from_request) {}
  Value(double value, bool from_request = false) : data_(value), from_request_(from_request) {}
  Value(std::shared_ptr<const String> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<const List> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<const Dict> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<Object> value) : data_(std::move(value)) {}
  Value(const char*) = delete;  // would be a bool
  static Value MakeUndefined(std::string why);
  // A text of the template itself, outside any budget.
  static Value Literal(std::string_view text);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<Int>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  // As in Python, true and false count as numbers.
  bool is_number() const { return is_int() || is_float() || is_bool(); }
  bool is_string() const { return string() != nullptr; }

  // nullptr when it is something else.
  const MarkedText* string() const;
  const List* list() const;
  const Dict* dict() const;
  Object* object() const;
  std::shared_ptr<const List> shared_list() const;

  bool as_bool() const { return std::get<bool>(data_); }
  // Of an int or bool.
  Int as_int() const { return is_bool() ? Int{as_bool()} : std::get<Int>(data_); }
  // Of any number.
  double as_double() const {
    return is_float() ? std::get<double>(data_) : static_cast<double>(as_int());
  }
  // Why an undefined value is undefined.
  std::string undefined_why() const;

  // A number that came with the request: what it prints is not trusted. (Texts carry marks.)
  bool from_request() const { return from_request_; }

  // Python's name of the type, for messages.
  std::string_view type_name() const;
  bool Truth() const;
  // Levels of containers inside this one; 0 for what is no container.
  int depth() const;

 private:
  std::variant<Undefined, None, bool, Int, double, std::shared_ptr<const String>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      data_;
  bool from_request_ = false;
};

struct List {
  enum class Kind {
    kList,
    kTuple,
    kView,       // of a dict: has a length, but no elements by number
    kGenerator,  // can be gone through once; always true
  };
  Kind kind = Kind::kList;
  std::vector<Value> items;
  int depth = 1;
  mutable bool exhausted = false;  // of a generator
  Charge charge;
};

// Keeps the order in which keys were first set.
struct Dict {
  // What equal keys have in common (1, 1.0 and true are one key); nullopt for what cannot be a key.
  static std::optional<std::string> HashKey(const Value& key);

  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  // False when `key` cannot be one.
  bool Set(Value key, Value value);

  std::vector<std::pair<Value, Value>> entries;
  absl::flat_hash_map<std::string, size_t> index;
  int depth = 1;
  Charge charge;
};

// Arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  // Names may come from the request (**message): as values they are not trusted.
  std::vector<std::pair<std::string, Value>> named;
};

class Runtime;

// A value with behaviour: functions, methods, macros, namespaces, loops.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual bool callable() const { return false; }
  // InvalidArgument when it is no function.
  virtual absl::StatusOr<Value> Call(Runtime& runtime, const Arguments& arguments);
  // nullopt when there is no such attribute.
  virtual std::optional<Value> Attribute(std::string_view name) { return std::nullopt; }
};

// Makes values within a budget.
class Runtime {
 public:
  explicit Runtime(const Limits& limits) : budget_(limits) {}

  Budget& budget() { return budget_; }
  const Limits& limits() const { return budget_.limits(); }

  // ResourceExhausted when memory is used up or values nest too deeply.
  absl::StatusOr<Value> MakeString(MarkedText text);
  absl::StatusOr<Value> MakeList(std::vector<Value> items, List::Kind kind = List::Kind::kList);
  absl::StatusOr<Value> MakeDict(std::shared_ptr<Dict> dict);

  // Keeps what may refer to itself (namespaces, scopes that macros see) until the end.
  template <typename T>
  T* Keep(std::unique_ptr<T> object) {
    T* raw = object.get();
    kept_.push_back(std::shared_ptr<T>(std::move(object)));
    return raw;
  }

 private:
  Budget budget_;
  std::vector<std::shared_ptr<void>> kept_;
};

// Builds a text that may not grow beyond the free memory, which it takes as it grows.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime) {}

  void Append(const MarkedText& text) { AppendRange(text, 0, text.size()); }
  void Append(std::string_view bytes, bool trusted);
  void AppendRange(const MarkedText& text, size_t begin, size_t end);
  size_t size() const { return text_.size(); }
  // Whether something did not fit, or the steps are used up; the rest is dropped.
  bool overflowed() const { return overflowed_; }
  // ResourceExhausted when overflowed().
  absl::Status Check() const;

  // Errors as Check().
  absl::StatusOr<MarkedText> TakeText();
  absl::StatusOr<Value> Finish();

 private:
  bool Fits(size_t bytes);
  void Account();

  Runtime& runtime_;
  MarkedText text_;
  Charge charge_;
  size_t charged_ = 0;
  bool overflowed_ = false;
};

// An error of the template or of what it was given: InvalidArgument.
absl::Status TemplateError(std::string_view message);
// The error of using an undefined value.
absl::Status UndefinedError(const Value& value);

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_VALUE_H_
