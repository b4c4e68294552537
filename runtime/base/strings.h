#ifndef HEADWAY_RUNTIME_BASE_STRINGS_H_
#define HEADWAY_RUNTIME_BASE_STRINGS_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace headway {

// Debian's Abseil is built with its own string_view, which does not convert to or from
// std::string_view. Own interfaces use std::string_view; these two cross the border.
inline absl::string_view ToAbsl(std::string_view s) { return {s.data(), s.size()}; }
inline std::string_view ToStd(absl::string_view s) { return {s.data(), s.size()}; }

}  // namespace headway

#endif  // HEADWAY_RUNTIME_BASE_STRINGS_H_
