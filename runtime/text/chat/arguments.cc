#include "runtime/text/chat/arguments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"
#include "runtime/base/strings.h"
#include "runtime/text/chat/operators.h"

namespace headway::text::chat {

absl::StatusOr<Bound> Bound::Bind(std::string_view function, const Arguments& arguments,
                                  std::initializer_list<std::string_view> parameters,
                                  size_t required) {
  HEADWAY_CHECK(parameters.size() <= kMaxParameters);
  Bound bound;
  bound.function_ = function;
  std::copy(parameters.begin(), parameters.end(), bound.names_.begin());
  if (arguments.positional.size() > parameters.size()) {
    return TemplateError(absl::StrCat(ToAbsl(function), "() takes at most ", parameters.size(),
                                      " arguments (", arguments.positional.size(), " given)"));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    bound.values_[i] = &arguments.positional[i];
  }
  for (const auto& [name, value] : arguments.named) {
    const auto it = std::find(parameters.begin(), parameters.end(), std::string_view(name));
    if (it == parameters.end()) {
      return TemplateError(
          absl::StrCat(ToAbsl(function), "() got an unexpected keyword argument '", name, "'"));
    }
    const size_t i = it - parameters.begin();
    if (bound.values_[i] != nullptr) {
      return TemplateError(
          absl::StrCat(ToAbsl(function), "() got multiple values for argument '", name, "'"));
    }
    bound.values_[i] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound.values_[i] == nullptr) {
      return TemplateError(
          absl::StrCat(ToAbsl(function), "() missing argument '", ToAbsl(bound.names_[i]), "'"));
    }
  }
  return bound;
}

absl::StatusOr<int64_t> Bound::IntOr(size_t i, int64_t otherwise) const {
  if (!has(i)) return otherwise;
  return ToInt64(*values_[i], absl::StrCat(ToAbsl(function_), "(", ToAbsl(names_[i]), ")"));
}

bool Bound::TruthOr(size_t i, bool otherwise) const {
  return values_[i] == nullptr ? otherwise : values_[i]->Truth();
}

absl::StatusOr<const MarkedText*> Bound::TextOr(size_t i, const MarkedText* otherwise) const {
  static const MarkedText& empty = *new MarkedText();
  if (!has(i)) return otherwise == nullptr ? &empty : otherwise;
  if (values_[i]->is_undefined()) return UndefinedError(*values_[i]);
  if (const MarkedText* text = values_[i]->string()) return text;
  return TemplateError(absl::StrCat(ToAbsl(function_), "() argument '", ToAbsl(names_[i]),
                                    "' must be str, not ", ToAbsl(values_[i]->type_name())));
}

}  // namespace headway::text::chat
