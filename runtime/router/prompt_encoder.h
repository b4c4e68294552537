#ifndef HEADWAY_RUNTIME_ROUTER_PROMPT_ENCODER_H_
#define HEADWAY_RUNTIME_ROUTER_PROMPT_ENCODER_H_

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/router/inference.h"
#include "runtime/text/chat/chat_template.h"
#include "runtime/text/tokenizer.h"

namespace headway {

// Prompts of every kind to token ids: the chat template, then the tokenizer. Either may be missing,
// as in checkpoints without text; then what needs it is FailedPrecondition. Immutable, thread-safe.
class PromptEncoder {
 public:
  // Both may be null. `wall_clock`: the time that a template may write into a prompt; unset: the
  // machine's.
  PromptEncoder(std::unique_ptr<text::Tokenizer> tokenizer,
                std::unique_ptr<text::ChatTemplate> chat_template,
                std::function<std::time_t()> wall_clock = nullptr);

  // Ids are handed through; whether they are in the vocabulary is not checked here. InvalidArgument
  // for text that is not UTF-8, no or nameless messages, what the template refuses, and, before it
  // is tokenised, for text that `max_tokens` tokens cannot hold; that it has not more than those is
  // not checked here either.
  absl::StatusOr<std::vector<int32_t>> Encode(const Prompt& prompt, int64_t max_tokens) const;

  // Null where the checkpoint has none.
  const text::Tokenizer* tokenizer() const { return tokenizer_.get(); }
  bool has_chat_template() const { return chat_template_ != nullptr; }

 private:
  absl::Status CheckCanFit(size_t bytes, int64_t max_tokens) const;
  absl::StatusOr<std::vector<int32_t>> EncodeText(const std::string& text,
                                                  int64_t max_tokens) const;
  absl::StatusOr<std::vector<int32_t>> EncodeChat(const std::vector<text::ChatMessage>& messages,
                                                  int64_t max_tokens) const;

  const std::unique_ptr<text::Tokenizer> tokenizer_;
  const std::unique_ptr<text::ChatTemplate> chat_template_;
  const std::function<std::time_t()> wall_clock_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_ROUTER_PROMPT_ENCODER_H_
