#ifndef HEADWAY_RUNTIME_TEXT_CHAT_OPERATORS_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_OPERATORS_H_

#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/text/chat/value.h"

namespace headway::text::chat {

// What Python's operators do. Errors are InvalidArgument in Python's words, or ResourceExhausted.

enum class Arithmetic { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
absl::StatusOr<Value> Apply(Runtime& runtime, Arithmetic op, const Value& left, const Value& right);
absl::StatusOr<Value> Negate(const Value& value);

absl::StatusOr<bool> Equal(Runtime& runtime, const Value& left, const Value& right);
// Negative, zero, positive. An error for values that have no order.
absl::StatusOr<int> Compare(Runtime& runtime, const Value& left, const Value& right);
// Whether `item` is in `container`.
absl::StatusOr<bool> Contains(Runtime& runtime, const Value& container, const Value& item);

// container[key]; undefined when there is no such item.
absl::StatusOr<Value> GetItem(Runtime& runtime, const Value& container, const Value& key);
// container[begin:end:step]; an absent bound is nullopt.
absl::StatusOr<Value> GetSlice(Runtime& runtime, const Value& container,
                               const std::optional<Value>& begin, const std::optional<Value>& end,
                               const std::optional<Value>& step);

// The items of anything that can be iterated: characters of a text, keys of a dict. Uses up a
// generator.
absl::StatusOr<std::shared_ptr<const List>> Iterate(Runtime& runtime, const Value& value);
// len(value), in characters for a text.
absl::StatusOr<Int> Length(const Value& value);

// The integer of an int or bool, within [-2^62, 2^62]; InvalidArgument naming `what` for anything
// else.
absl::StatusOr<int64_t> ToInt64(const Value& value, std::string_view what);

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_OPERATORS_H_
