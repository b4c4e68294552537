#ifndef HEADWAY_RUNTIME_TEXT_CHAT_PARSER_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_PARSER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/text/chat/ast.h"

namespace headway::text::chat {

// Parses a template. InvalidArgument, with the line, when it is malformed, uses a tag that chat
// templates have no use for (include, extends, block, ...), or nests more than `max_depth` deep.
absl::StatusOr<Body> ParseTemplate(std::string_view source, int max_depth);

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_PARSER_H_
