#ifndef HEADWAY_RUNTIME_ROUTER_PROMPT_ENCODER_H_
#define HEADWAY_RUNTIME_ROUTER_PROMPT_ENCODER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/router/inference.h"
#include "runtime/text/tokenizer.h"

namespace headway {

// Prompts of every kind to token ids: the chat template, then the tokenizer. Either may be missing,
// as in checkpoints without text; then what needs it is FailedPrecondition. Immutable, thread-safe.
class PromptEncoder {
 public:
  // May be null.
  explicit PromptEncoder(std::unique_ptr<text::Tokenizer> tokenizer);

  // Ids are handed through; whether they are in the vocabulary is not checked here. InvalidArgument
  // for text that is not UTF-8, no or nameless messages, and what the template refuses.
  absl::StatusOr<std::vector<int32_t>> Encode(const Prompt& prompt) const;

  // Null where the checkpoint has none.
  const text::Tokenizer* tokenizer() const { return tokenizer_.get(); }
  bool has_chat_template() const { return false; }

 private:
  absl::StatusOr<std::vector<int32_t>> EncodeText(const std::string& text) const;
  absl::StatusOr<std::vector<int32_t>> EncodeChat(const std::vector<ChatTurn>& turns) const;

  const std::unique_ptr<text::Tokenizer> tokenizer_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_ROUTER_PROMPT_ENCODER_H_
