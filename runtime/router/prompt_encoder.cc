#include "runtime/router/prompt_encoder.h"

#include <utility>

#include "runtime/base/status.h"

namespace headway {

PromptEncoder::PromptEncoder(std::unique_ptr<text::Tokenizer> tokenizer,
                             std::unique_ptr<text::ChatTemplate> chat_template,
                             std::function<std::time_t()> wall_clock)
    : tokenizer_(std::move(tokenizer)),
      chat_template_(std::move(chat_template)),
      wall_clock_(wall_clock ? std::move(wall_clock) : [] { return std::time(nullptr); }) {}

absl::StatusOr<std::vector<int32_t>> PromptEncoder::Encode(const Prompt& prompt,
                                                           int64_t max_tokens) const {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return *ids;
  if (tokenizer_ == nullptr) {
    return absl::FailedPreconditionError(
        "prompt: the checkpoint has no tokenizer; give token ids in place of text or messages");
  }
  if (const auto* text = std::get_if<std::string>(&prompt)) return EncodeText(*text, max_tokens);
  return EncodeChat(std::get<std::vector<text::ChatMessage>>(prompt), max_tokens);
}

absl::Status PromptEncoder::CheckCanFit(size_t bytes, int64_t max_tokens) const {
  const int64_t most = tokenizer_->MostTextBytes(max_tokens);
  if (static_cast<int64_t>(bytes) <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("prompt has ", bytes,
                                                 " bytes of text, the model's limit of ",
                                                 max_tokens, " positions holds at most ", most));
}

absl::StatusOr<std::vector<int32_t>> PromptEncoder::EncodeText(const std::string& text,
                                                               int64_t max_tokens) const {
  HEADWAY_RETURN_IF_ERROR(CheckCanFit(text.size(), max_tokens));
  absl::StatusOr<std::vector<int32_t>> ids =
      tokenizer_->Encode(text, text::Tokenizer::Mode::kUserText);
  if (!ids.ok()) return Annotate(ids.status(), "prompt");
  if (tokenizer_->add_bos() && tokenizer_->bos_id())
    ids->insert(ids->begin(), *tokenizer_->bos_id());
  return ids;
}

absl::StatusOr<std::vector<int32_t>> PromptEncoder::EncodeChat(
    const std::vector<text::ChatMessage>& messages, int64_t max_tokens) const {
  if (chat_template_ == nullptr) {
    return absl::FailedPreconditionError(
        "prompt: the checkpoint has no chat template that can be used; give text or token ids in "
        "place of messages");
  }
  if (messages.empty())
    return absl::InvalidArgumentError("chat has 0 messages, must have 1 or more");
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].role.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("chat message ", i, " has an empty role; e.g. system, user, assistant"));
  }
  const std::time_t seconds = wall_clock_();
  std::tm now = {};
  localtime_r(&seconds, &now);
  absl::StatusOr<std::vector<text::TextPiece>> pieces = chat_template_->Render(messages, now);
  if (!pieces.ok()) return Annotate(pieces.status(), "chat template");
  size_t bytes = 0;
  for (const text::TextPiece& piece : *pieces) bytes += piece.text.size();
  HEADWAY_RETURN_IF_ERROR(CheckCanFit(bytes, max_tokens));
  absl::StatusOr<std::vector<int32_t>> ids = tokenizer_->EncodePieces(*pieces);
  if (!ids.ok()) return Annotate(ids.status(), "chat");
  return ids;
}

}  // namespace headway
