#include "runtime/text/chat/attributes.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/text/chat/arguments.h"
#include "runtime/text/chat/operators.h"
#include "runtime/text/chat/string_methods.h"

namespace headway::text::chat {
namespace {

class BoundMethod : public Object {
 public:
  BoundMethod(Value self, Method method) : self_(std::move(self)), method_(method) {}
  std::string_view type_name() const override { return "method"; }
  bool callable() const override { return true; }
  absl::StatusOr<Value> Call(Runtime& runtime, const Arguments& arguments) override {
    return method_(runtime, self_, arguments);
  }

 private:
  Value self_;
  Method method_;
};

enum class DictPart { kKeys, kValues, kItems };

template <DictPart kPart>
absl::StatusOr<Value> DictView(Runtime& runtime, const Value& self, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("a method of dict", arguments, {}).status());
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries) {
    if (kPart == DictPart::kItems) {
      HEADWAY_ASSIGN_OR_RETURN(Value pair, runtime.MakeList({key, value}, List::Kind::kTuple));
      items.push_back(std::move(pair));
    } else {
      items.push_back(kPart == DictPart::kKeys ? key : value);
    }
  }
  return runtime.MakeList(std::move(items), List::Kind::kView);
}

absl::StatusOr<Value> DictGet(Runtime& runtime, const Value& self, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("get", arguments, {"key", "default"}, 1));
  if (const MarkedText* s = bound[0]->string()) runtime.budget().Work(s->size());
  if (const Value* value = self.dict()->Find(*bound[0])) return *value;
  return bound[1] == nullptr ? Value(None()) : *bound[1];
}

absl::StatusOr<Value> Copy(Runtime& runtime, const Value& self, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("copy", arguments, {}).status());
  return self;  // values never change
}

absl::StatusOr<Value> ListIndex(Runtime& runtime, const Value& self, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("index", arguments, {"value"}, 1));
  const std::vector<Value>& items = self.list()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    HEADWAY_ASSIGN_OR_RETURN(const bool equal, Equal(runtime, items[i], *bound[0]));
    if (equal) return Value(static_cast<Int>(i));
  }
  return TemplateError("the value is not in the list");
}

absl::StatusOr<Value> ListCount(Runtime& runtime, const Value& self, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("count", arguments, {"value"}, 1));
  Int count = 0;
  for (const Value& item : self.list()->items) {
    HEADWAY_ASSIGN_OR_RETURN(const bool equal, Equal(runtime, item, *bound[0]));
    count += equal;
  }
  return Value(count);
}

Method FindDictMethod(std::string_view name) {
  if (name == "items") return DictView<DictPart::kItems>;
  if (name == "keys") return DictView<DictPart::kKeys>;
  if (name == "values") return DictView<DictPart::kValues>;
  if (name == "get") return DictGet;
  if (name == "copy") return Copy;
  return nullptr;
}

Method FindListMethod(std::string_view name) {
  if (name == "index") return ListIndex;
  if (name == "count") return ListCount;
  if (name == "copy") return Copy;
  return nullptr;
}

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

absl::StatusOr<std::optional<Value>> BuiltinAttribute(const Value& container,
                                                      std::string_view name) {
  Method method = nullptr;
  bool changes = false;
  if (container.is_string()) {
    method = FindStringMethod(name);
  } else if (container.dict() != nullptr) {
    method = FindDictMethod(name);
    changes = IsOneOf(name, {"clear", "pop", "popitem", "setdefault", "update"});
  } else if (const List* list = container.list();
             list != nullptr &&
             (list->kind == List::Kind::kList || list->kind == List::Kind::kTuple)) {
    method = FindListMethod(name);
    changes =
        list->kind == List::Kind::kList &&
        IsOneOf(name, {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"});
  } else if (Object* object = container.object()) {
    return object->Attribute(name);
  }
  if (method != nullptr) {
    return Value(std::shared_ptr<Object>(std::make_shared<BoundMethod>(container, method)));
  }
  if (changes) {
    return Value::MakeUndefined(absl::StrCat("access to attribute '", ToAbsl(name), "' of '",
                                             ToAbsl(container.type_name()),
                                             "' object is unsafe: values cannot be changed"));
  }
  return std::nullopt;
}

absl::StatusOr<Value> GetAttribute(Runtime& runtime, const Value& container,
                                   std::string_view name) {
  if (container.is_undefined()) return UndefinedError(container);
  HEADWAY_ASSIGN_OR_RETURN(std::optional<Value> attribute, BuiltinAttribute(container, name));
  if (attribute) return *std::move(attribute);
  if (const Dict* dict = container.dict()) {
    if (const Value* value = dict->Find(name)) return *value;
  }
  return Value::MakeUndefined(absl::StrCat("'", ToAbsl(container.type_name()),
                                           " object' has no attribute '", ToAbsl(name), "'"));
}

}  // namespace headway::text::chat
