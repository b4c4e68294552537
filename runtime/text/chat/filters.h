#ifndef HEADWAY_RUNTIME_TEXT_CHAT_FILTERS_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_FILTERS_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/text/chat/value.h"

namespace headway::text::chat {

// value|name(arguments).
using Filter = absl::StatusOr<Value> (*)(Runtime&, const Value& input, const Arguments&);
// InvalidArgument when there is no such filter.
absl::StatusOr<Filter> FindFilter(std::string_view name);

// value is name(arguments).
using Test = absl::StatusOr<bool> (*)(Runtime&, const Value& input, const Arguments&);
// InvalidArgument when there is no such test.
absl::StatusOr<Test> FindTest(std::string_view name);

// Filters in tables of their own, by what they work on; nullptr when the name is in another.
Filter FindTextFilter(std::string_view name);
Filter FindSequenceFilter(std::string_view name);
Filter FindValueFilter(std::string_view name);

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_FILTERS_H_
