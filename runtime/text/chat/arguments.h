#ifndef HEADWAY_RUNTIME_TEXT_CHAT_ARGUMENTS_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_ARGUMENTS_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/text/chat/value.h"

namespace headway::text::chat {

// The arguments of one call by the names of a function's parameters. Refers to the Arguments.
class Bound {
 public:
  static constexpr size_t kMaxParameters = 4;

  // The first `required` parameters must be given. InvalidArgument names `function` and what is
  // missing, unknown, given twice or too much.
  static absl::StatusOr<Bound> Bind(std::string_view function, const Arguments& arguments,
                                    std::initializer_list<std::string_view> parameters,
                                    size_t required = 0);

  // nullptr when the argument was not given.
  const Value* operator[](size_t i) const { return values_[i]; }
  // Whether it was given and is not none.
  bool has(size_t i) const { return values_[i] != nullptr && !values_[i]->is_none(); }

  // Errors name the function and the parameter. Where it was not given (or is none): `otherwise`.
  absl::StatusOr<int64_t> IntOr(size_t i, int64_t otherwise) const;
  bool TruthOr(size_t i, bool otherwise) const;
  // Valid as long as the arguments (and `otherwise`; nullptr: the empty text).
  absl::StatusOr<const MarkedText*> TextOr(size_t i, const MarkedText* otherwise = nullptr) const;

 private:
  std::string_view function_;
  std::array<std::string_view, kMaxParameters> names_;
  std::array<const Value*, kMaxParameters> values_ = {};
};

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_ARGUMENTS_H_
