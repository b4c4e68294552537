#include "runtime/text/chat/token_stream.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/strings.h"
#include "runtime/base/utf8.h"

namespace headway::text::chat {

bool TokenStream::TakeOperator(std::string_view text) {
  if (!IsOperator(text)) return false;
  Advance();
  return true;
}

bool TokenStream::TakeName(std::string_view text) {
  if (!IsName(text)) return false;
  Advance();
  return true;
}

absl::Status TokenStream::ExpectOperator(std::string_view text) {
  if (TakeOperator(text)) return absl::OkStatus();
  return Unexpected(absl::StrCat("'", ToAbsl(text), "'"));
}

absl::Status TokenStream::ExpectName(std::string_view text) {
  if (TakeName(text)) return absl::OkStatus();
  return Unexpected(absl::StrCat("'", ToAbsl(text), "'"));
}

absl::Status TokenStream::ExpectKind(TokenKind kind, std::string_view what) {
  if (current().kind != kind) return Unexpected(what);
  Advance();
  return absl::OkStatus();
}

absl::Status TokenStream::Unexpected(std::string_view wanted) const {
  std::string found;
  switch (current().kind) {
    case TokenKind::kText:
      found = "text";
      break;
    case TokenKind::kPrint:
      found = "'{{'";
      break;
    case TokenKind::kPrintEnd:
      found = "'}}'";
      break;
    case TokenKind::kBlock:
      found = "'{%'";
      break;
    case TokenKind::kBlockEnd:
      found = "'%}'";
      break;
    case TokenKind::kEnd:
      found = "end of the template";
      break;
    default:
      found = Quoted(current().text);
  }
  return SyntaxError(line(), absl::StrCat("expected ", ToAbsl(wanted), ", found ", found));
}

}  // namespace headway::text::chat
