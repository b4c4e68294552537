#ifndef HEADWAY_RUNTIME_TEXT_CHAT_LEXER_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_LEXER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace headway::text::chat {

enum class TokenKind {
  kText,      // between the tags
  kPrint,     // {{
  kPrintEnd,  // }}
  kBlock,     // {%
  kBlockEnd,  // %}
  kName,
  kInteger,
  kFloat,
  kString,
  kOperator,  // one or two characters of "+-/*%~[](){}=!<>.:|,;"
  kEnd,       // of the template
};

struct Token {
  TokenKind kind;
  std::string text;  // of a string: unescaped; of a number: without underscores
  int line;          // from 1
};

inline constexpr size_t kMaxTemplateBytes = 256 << 10;

// Cuts a template into tokens; the last is kEnd. White space around tags is already dealt with, as
// chat templates expect it: one newline after a block or comment goes away, blanks before one that
// starts a line too; '-' takes all white space, '+' none; one newline at the end is dropped.
// InvalidArgument, with the line, when the template is too long, not UTF-8 or malformed.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

// An error in a template: "chat template, line 3: ...".
absl::Status SyntaxError(int line, std::string_view message);

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_LEXER_H_
