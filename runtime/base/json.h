#ifndef HEADWAY_RUNTIME_BASE_JSON_H_
#define HEADWAY_RUNTIME_BASE_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "absl/status/statusor.h"

namespace headway {

// Deepest nesting of objects and arrays that ParseJson accepts.
inline constexpr int kMaxJsonDepth = 64;

// Parses one JSON value of valid UTF-8, strictly: no comments, no NaN, nothing behind it, no name
// twice in an object, at most kMaxJsonDepth levels. InvalidArgument says what is wrong and at which
// byte. Takes memory in proportion to `text`.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_BASE_JSON_H_
