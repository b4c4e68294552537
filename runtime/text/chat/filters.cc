#include "runtime/text/chat/filters.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/strings.h"

namespace headway::text::chat {

absl::StatusOr<Filter> FindFilter(std::string_view name) {
  for (const Filter filter :
       {FindTextFilter(name), FindSequenceFilter(name), FindValueFilter(name)}) {
    if (filter != nullptr) return filter;
  }
  return TemplateError(absl::StrCat("No filter named '", ToAbsl(name), "'"));
}

}  // namespace headway::text::chat
