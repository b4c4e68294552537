#ifndef HEADWAY_RUNTIME_TEXT_CHAT_STRING_METHODS_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_STRING_METHODS_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/text/chat/value.h"

namespace headway::text::chat {

// Methods of Python's str. All keep the marks of what they cut and join.

using Method = absl::StatusOr<Value> (*)(Runtime&, const Value& self, const Arguments&);
// nullptr when str has no such method (or templates may not use it).
Method FindStringMethod(std::string_view name);

// The same for filters.
enum class Side { kLeft, kRight, kBoth };
// Without the characters of `characters` (nullptr: white space) at its ends.
MarkedText Strip(const MarkedText& text, const std::string_view* characters, Side side);
absl::StatusOr<Value> ToUpper(Runtime& runtime, const MarkedText& text);
absl::StatusOr<Value> ToLower(Runtime& runtime, const MarkedText& text);
absl::StatusOr<Value> Capitalize(Runtime& runtime, const MarkedText& text);
// At most `count` times; negative: everywhere.
absl::StatusOr<Value> Replace(Runtime& runtime, const MarkedText& text, const MarkedText& from,
                              const MarkedText& to, int64_t count);

// Lower case of one character; for comparisons that ignore case.
void AppendLower(std::string_view text, std::string* out);

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_STRING_METHODS_H_
