#ifndef HEADWAY_RUNTIME_TEXT_CHAT_CHAT_TEMPLATE_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_CHAT_TEMPLATE_H_

#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/text/chat/budget.h"
#include "runtime/text/text_piece.h"

namespace headway::text {

struct ChatMessage {
  std::string role;
  std::string content;
};

// A conversation, and what goes with it.
struct Conversation {
  // An array of objects with `role` and `content`, perhaps `tool_calls`, `name` and others; the
  // order of members is kept. Arguments of tool calls are objects here, not JSON in a string. A
  // `reasoning`, `thinking` or `reasoning_content` of a message is visible as `thinking` and
  // `reasoning_content`.
  const nlohmann::ordered_json* messages = nullptr;
  // Arrays; nullptr: none, which templates see as none, not as undefined.
  const nlohmann::ordered_json* tools = nullptr;
  const nlohmann::ordered_json* documents = nullptr;
  // An object whose members are further variables (enable_thinking); nullptr: no more.
  const nlohmann::ordered_json* variables = nullptr;
  // Ends with the opening of the assistant's answer.
  bool add_generation_prompt = true;
  // What strftime_now sees; all fields set, as gmtime_r and localtime_r do.
  std::tm now = {};
};

// A checkpoint's chat template: a program in a subset of Jinja. Immutable and thread-safe.
class ChatTemplate {
 public:
  // Special tokens as the template may print them; nullopt: undefined.
  struct SpecialTokens {
    std::optional<std::string> bos;
    std::optional<std::string> eos;
  };

  // InvalidArgument, with the line, when `source` is malformed.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Parse(std::string_view source,
                                                             SpecialTokens special_tokens,
                                                             const chat::Limits& limits = {});
  ~ChatTemplate();

  // The prompt, for Tokenizer::EncodePieces. Untrusted is everything that came from the
  // conversation, also after the template has cut it or put it together with other text.
  // InvalidArgument when the template refuses the messages (in its own words) or cannot work with
  // them; ResourceExhausted when it takes more steps, memory or output than it may.
  absl::StatusOr<std::vector<TextPiece>> Render(const Conversation& conversation) const;

  // The same for messages that are only text.
  absl::StatusOr<std::vector<TextPiece>> Render(std::span<const ChatMessage> messages,
                                                const std::tm& now) const;

 private:
  struct Parts;
  explicit ChatTemplate(std::unique_ptr<const Parts> parts);

  const std::unique_ptr<const Parts> parts_;
};

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_CHAT_TEMPLATE_H_
