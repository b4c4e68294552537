#ifndef HEADWAY_RUNTIME_TEXT_CHAT_ATTRIBUTES_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_ATTRIBUTES_H_

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/text/chat/value.h"

namespace headway::text::chat {

// A method of a text, list or dict, or an attribute of an object; nullopt when there is none. What
// would change a value, and what begins with an underscore, is undefined: using it is an error.
absl::StatusOr<std::optional<Value>> BuiltinAttribute(const Value& container,
                                                      std::string_view name);

// container.name: an attribute, else the item of a dict, else undefined.
absl::StatusOr<Value> GetAttribute(Runtime& runtime, const Value& container, std::string_view name);

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_ATTRIBUTES_H_
