#ifndef HEADWAY_RUNTIME_TEXT_CHAT_TEMPLATE_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_TEMPLATE_H_

#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/text/chat/ast.h"
#include "runtime/text/chat/budget.h"
#include "runtime/text/text_piece.h"

namespace headway::text::chat {

// What a template can see.
struct Variables {
  // An object; each member is a variable. Whatever text is in there is not trusted.
  const nlohmann::ordered_json* request = nullptr;
  // Texts of the checkpoint itself, e.g. bos_token.
  std::vector<std::pair<std::string, std::string>> trusted;
  std::tm now = {};  // for strftime_now; all fields set
};

// A parsed template. Immutable and thread-safe.
class Template {
 public:
  // InvalidArgument, with the line, when `source` is malformed.
  static absl::StatusOr<Template> Parse(std::string_view source, const Limits& limits = {});

  // What the template prints, in runs of trusted and untrusted text. InvalidArgument when the
  // template refuses (its own words) or cannot work with the variables; ResourceExhausted at a
  // limit.
  absl::StatusOr<std::vector<TextPiece>> Render(const Variables& variables) const;

 private:
  Template(Body body, const Limits& limits) : body_(std::move(body)), limits_(limits) {}

  Body body_;
  Limits limits_;
};

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_TEMPLATE_H_
