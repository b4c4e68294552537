#include "runtime/text/chat/chat_template.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/text/chat/template.h"

namespace headway::text {
namespace {

using Json = nlohmann::ordered_json;

// Reasoning has three names; templates know one or the other of two.
void NameReasoning(Json* message) {
  if (!message->is_object()) return;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto it = message->find(name);
    if (it == message->end() || it->is_null()) continue;
    const Json reasoning = *it;
    (*message)["reasoning_content"] = reasoning;
    (*message)["thinking"] = reasoning;
    return;
  }
}

Json OrNull(const Json* json) { return json == nullptr ? Json() : *json; }

}  // namespace

struct ChatTemplate::Parts {
  chat::Template source;
  std::vector<std::pair<std::string, std::string>> trusted;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Parse(std::string_view source,
                                                                  SpecialTokens special_tokens,
                                                                  const chat::Limits& limits) {
  HEADWAY_ASSIGN_OR_RETURN(chat::Template parsed, chat::Template::Parse(source, limits));
  auto parts = std::make_unique<Parts>(Parts{std::move(parsed), {}});
  if (special_tokens.bos) parts->trusted.emplace_back("bos_token", *special_tokens.bos);
  if (special_tokens.eos) parts->trusted.emplace_back("eos_token", *special_tokens.eos);
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(parts)));
}

absl::StatusOr<std::vector<TextPiece>> ChatTemplate::Render(
    const Conversation& conversation) const {
  Json variables = conversation.variables == nullptr ? Json::object() : *conversation.variables;
  if (!variables.is_object()) {
    return absl::InvalidArgumentError("chat template: the variables are not an object");
  }
  Json messages = conversation.messages == nullptr ? Json::array() : *conversation.messages;
  if (!messages.is_array()) {
    return absl::InvalidArgumentError("chat template: the messages are not an array");
  }
  for (Json& message : messages) NameReasoning(&message);
  variables["messages"] = std::move(messages);
  variables["tools"] = OrNull(conversation.tools);
  variables["documents"] = OrNull(conversation.documents);
  variables["add_generation_prompt"] = conversation.add_generation_prompt;
  return parts_->source.Render(
      {.request = &variables, .trusted = parts_->trusted, .now = conversation.now});
}

absl::StatusOr<std::vector<TextPiece>> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                                            const std::tm& now) const {
  Json json = Json::array();
  for (const ChatMessage& message : messages) {
    json.push_back({{"role", message.role}, {"content", message.content}});
  }
  return Render(Conversation{.messages = &json, .now = now});
}

}  // namespace headway::text
