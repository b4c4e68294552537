#include "runtime/router/prompt_encoder.h"

#include <utility>

#include "runtime/base/status.h"

namespace headway {

PromptEncoder::PromptEncoder(std::unique_ptr<text::Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)) {}

absl::StatusOr<std::vector<int32_t>> PromptEncoder::Encode(const Prompt& prompt) const {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return *ids;
  if (tokenizer_ == nullptr) {
    return absl::FailedPreconditionError(
        "prompt: the checkpoint has no tokenizer; give token ids in place of text or messages");
  }
  if (const auto* text = std::get_if<std::string>(&prompt)) return EncodeText(*text);
  return EncodeChat(std::get<std::vector<ChatTurn>>(prompt));
}

absl::StatusOr<std::vector<int32_t>> PromptEncoder::EncodeText(const std::string& text) const {
  absl::StatusOr<std::vector<int32_t>> ids =
      tokenizer_->Encode(text, text::Tokenizer::Mode::kUserText);
  if (!ids.ok()) return Annotate(ids.status(), "prompt");
  if (tokenizer_->add_bos() && tokenizer_->bos_id())
    ids->insert(ids->begin(), *tokenizer_->bos_id());
  return ids;
}

absl::StatusOr<std::vector<int32_t>> PromptEncoder::EncodeChat(
    const std::vector<ChatTurn>& turns) const {
  return absl::FailedPreconditionError("prompt: the checkpoint has no chat template");
}

}  // namespace headway
