#ifndef HEADWAY_RUNTIME_TEXT_CHAT_TOKEN_STREAM_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_TOKEN_STREAM_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "runtime/text/chat/lexer.h"

namespace headway::text::chat {

// The tokens that a parser has yet to read. Ends in kEnd, which is never passed.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  int line() const { return current().line; }
  void Advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }

  bool IsOperator(std::string_view text) const { return IsOperator(current(), text); }
  static bool IsOperator(const Token& token, std::string_view text) {
    return token.kind == TokenKind::kOperator && token.text == text;
  }
  bool IsName(std::string_view text) const {
    return current().kind == TokenKind::kName && current().text == text;
  }
  // Passes the token if it is this one.
  bool TakeOperator(std::string_view text);
  bool TakeName(std::string_view text);
  absl::Status ExpectOperator(std::string_view text);
  absl::Status ExpectName(std::string_view text);
  absl::Status ExpectKind(TokenKind kind, std::string_view what);
  // "unexpected 'x'", at the current line.
  absl::Status Unexpected(std::string_view wanted) const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_TOKEN_STREAM_H_
