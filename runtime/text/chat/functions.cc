#include "runtime/text/chat/functions.h"

#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/base/utf8.h"
#include "runtime/text/chat/arguments.h"
#include "runtime/text/chat/operators.h"
#include "runtime/text/chat/printing.h"

namespace headway::text::chat {
namespace {

constexpr Int kMaxRange = 100'000;

using Body = std::function<absl::StatusOr<Value>(Runtime&, const Arguments&)>;

class Function : public Object {
 public:
  explicit Function(Body body) : body_(std::move(body)) {}
  std::string_view type_name() const override { return "function"; }
  bool callable() const override { return true; }
  absl::StatusOr<Value> Call(Runtime& runtime, const Arguments& arguments) override {
    return body_(runtime, arguments);
  }

 private:
  Body body_;
};

Value MakeFunction(Body body) {
  return Value(std::shared_ptr<Object>(std::make_shared<Function>(std::move(body))));
}

absl::StatusOr<Value> Range(Runtime& runtime, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("range", arguments, {"start", "stop", "step"}, 1));
  HEADWAY_ASSIGN_OR_RETURN(int64_t start, bound.IntOr(0, 0));
  HEADWAY_ASSIGN_OR_RETURN(int64_t stop, bound.IntOr(1, 0));
  HEADWAY_ASSIGN_OR_RETURN(const int64_t step, bound.IntOr(2, 1));
  if (bound[1] == nullptr) stop = std::exchange(start, 0);
  if (step == 0) return TemplateError("range() step must not be zero");
  const Int distance = step > 0 ? Int{stop} - start : Int{start} - stop;
  const Int stride = step > 0 ? step : -Int{step};
  const Int count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (count > kMaxRange) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the chat template asks for a range of more than ", static_cast<int>(kMaxRange), " items"));
  }
  std::vector<Value> items;
  for (Int i = 0; i < count; ++i) items.emplace_back(Int{start} + i * step);
  return runtime.MakeList(std::move(items));
}

absl::Status CopyInto(Runtime& runtime, const Value& from, Dict* dict) {
  if (const Dict* other = from.dict()) {
    for (const auto& [key, value] : other->entries) dict->Set(key, value);
    return absl::OkStatus();
  }
  HEADWAY_ASSIGN_OR_RETURN(const auto pairs, Iterate(runtime, from));
  for (const Value& each : pairs->items) {
    HEADWAY_ASSIGN_OR_RETURN(const auto pair, Iterate(runtime, each));
    if (pair->items.size() != 2 || !dict->Set(pair->items[0], pair->items[1])) {
      return TemplateError("dict() needs pairs of a key and a value");
    }
  }
  return absl::OkStatus();
}

// What dict(...) and namespace(...) are given.
absl::StatusOr<std::shared_ptr<Dict>> DictOf(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() > 1) return TemplateError("dict() takes at most one argument");
  auto dict = std::make_shared<Dict>();
  if (!arguments.positional.empty()) {
    HEADWAY_RETURN_IF_ERROR(CopyInto(runtime, arguments.positional[0], dict.get()));
  }
  for (const auto& [name, value] : arguments.named) {
    HEADWAY_ASSIGN_OR_RETURN(Value key, runtime.MakeString(MarkedText(name, /*trusted=*/false)));
    dict->Set(std::move(key), value);
  }
  return dict;
}

absl::StatusOr<Value> MakeDictValue(Runtime& runtime, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(std::shared_ptr<Dict> dict, DictOf(runtime, arguments));
  return runtime.MakeDict(std::move(dict));
}

absl::StatusOr<Value> MakeNamespace(Runtime& runtime, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const std::shared_ptr<Dict> dict, DictOf(runtime, arguments));
  // A namespace may come to hold itself, so it is not counted but kept.
  Namespace* made = runtime.Keep(std::make_unique<Namespace>());
  for (const auto& [key, value] : dict->entries) {
    if (!key.is_string()) return TemplateError("namespace() keywords must be strings");
    HEADWAY_RETURN_IF_ERROR(made->Set(runtime, key.string()->bytes(), value));
  }
  return Value(std::shared_ptr<Object>(std::shared_ptr<void>(), made));
}

absl::StatusOr<Value> RaiseException(Runtime& runtime, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("raise_exception", arguments, {"message"}));
  MarkedText message;
  if (bound[0] != nullptr) {
    HEADWAY_ASSIGN_OR_RETURN(message, ToText(runtime, *bound[0]));
  }
  return absl::AbortedError(message.bytes());
}

absl::StatusOr<Value> FormatTime(Runtime& runtime, const Arguments& arguments, const std::tm& now) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("strftime_now", arguments, {"format"}, 1));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* format, bound.TextOr(0));
  const std::string& text = format->bytes();
  char buffer[512];
  const size_t size = text.empty() ? 0 : std::strftime(buffer, sizeof buffer, text.c_str(), &now);
  if (size == 0 && !text.empty()) {
    return TemplateError("strftime_now: the result is empty or longer than 511 bytes");
  }
  const std::string_view result(buffer, size);
  if (FindInvalidUtf8(result)) return TemplateError("strftime_now: the result is not UTF-8");
  return runtime.MakeString(MarkedText(result, format->all_trusted()));
}

// Prints nothing the first time it is called, then its separator.
absl::StatusOr<Value> MakeJoiner(Runtime& runtime, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("joiner", arguments, {"sep"}));
  const Value separator = bound[0] == nullptr ? Value::Literal(", ") : *bound[0];
  return MakeFunction([separator, used = false](Runtime&, const Arguments&) mutable {
    return absl::StatusOr<Value>(std::exchange(used, true) ? separator : Value::Literal(""));
  });
}

class Cycler : public Object {
 public:
  explicit Cycler(std::vector<Value> items)
      : state_(std::make_shared<State>(State{std::move(items)})) {}
  std::string_view type_name() const override { return "cycler"; }
  std::optional<Value> Attribute(std::string_view name) override {
    if (name == "current") return state_->items[state_->at];
    if (name == "next") {
      return MakeFunction([state = state_](Runtime&, const Arguments&) {
        const Value current = state->items[state->at];
        state->at = (state->at + 1) % state->items.size();
        return absl::StatusOr<Value>(current);
      });
    }
    if (name == "reset") {
      return MakeFunction([state = state_](Runtime&, const Arguments&) {
        state->at = 0;
        return absl::StatusOr<Value>(Value(None()));
      });
    }
    return std::nullopt;
  }

 private:
  struct State {
    std::vector<Value> items;
    size_t at = 0;
  };
  std::shared_ptr<State> state_;
};

absl::StatusOr<Value> MakeCycler(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    return TemplateError("cycler() needs at least one item");
  }
  return Value(std::shared_ptr<Object>(std::make_shared<Cycler>(arguments.positional)));
}

}  // namespace

std::optional<Value> Namespace::Attribute(std::string_view name) {
  const auto it = attributes_.find(name);
  if (it == attributes_.end()) return std::nullopt;
  return it->second;
}

absl::Status Namespace::Set(Runtime& runtime, const std::string& name, Value value) {
  if (name.starts_with('_')) {
    return TemplateError(absl::StrCat("a namespace cannot have the attribute '", name,
                                      "': it begins with an underscore"));
  }
  const auto it = attributes_.find(name);
  if (it != attributes_.end()) {
    it->second = std::move(value);
    return absl::OkStatus();
  }
  HEADWAY_RETURN_IF_ERROR(charge_.Grow(&runtime.budget(), name.size() + 3 * sizeof(Value)));
  attributes_.emplace(name, std::move(value));
  return absl::OkStatus();
}

std::vector<std::pair<std::string, Value>> GlobalFunctions(const std::tm& now) {
  return {
      {"range", MakeFunction(Range)},
      {"dict", MakeFunction(MakeDictValue)},
      {"namespace", MakeFunction(MakeNamespace)},
      {"joiner", MakeFunction(MakeJoiner)},
      {"cycler", MakeFunction(MakeCycler)},
      {"raise_exception", MakeFunction(RaiseException)},
      {"strftime_now", MakeFunction([now](Runtime& runtime, const Arguments& arguments) {
         return FormatTime(runtime, arguments, now);
       })},
  };
}

}  // namespace headway::text::chat
