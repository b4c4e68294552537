#ifndef HEADWAY_RUNTIME_TEXT_CHAT_FORMATTING_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_FORMATTING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "runtime/text/chat/value.h"

namespace headway::text::chat {

// format % arguments: %s %r %d %i %x %f %e %g %%, with flags, width and precision.
absl::StatusOr<Value> FormatPercent(Runtime& runtime, const MarkedText& format,
                                    const std::vector<Value>& arguments);

// format.format(arguments): {} {0} {name}, with !r or !s and [fill][<>^][+][0][width][.precision]
// and s, d, x, f, e, g. Attributes and items ({0.x}, {0[x]}) are refused.
absl::StatusOr<Value> FormatBraces(Runtime& runtime, const MarkedText& format,
                                   const Arguments& arguments);

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_FORMATTING_H_
