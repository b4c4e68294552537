#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/utf8.h"
#include "runtime/main/answer.h"
#include "runtime/main/client_target.h"
#include "runtime/main/interrupt.h"
#include "runtime/main/verb.h"

namespace headway {
namespace {

struct Options {
  std::string message;
  std::string system;
  ClientTargetOptions target;
  AnswerOptions answer;
};

void Append(v1::Prompt& prompt, const std::string& role, const std::string& content) {
  v1::ChatMessage& message = *prompt.mutable_chat()->add_messages();
  message.set_role(role);
  message.set_content(content);
}

// Lines of standard input, until it ends or somebody asks to stop.
class InputLines {
 public:
  explicit InputLines(const Interrupt& interrupt) : interrupt_(interrupt) {}

  // The next line without its line feed; nothing at the end.
  std::optional<std::string> Next() {
    size_t end;
    while ((end = rest_.find('\n')) == std::string::npos) {
      char bytes[4096];
      if (WaitReadable(interrupt_.fd(), STDIN_FILENO) == 0) return std::nullopt;
      const ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
      if (count <= 0) break;
      rest_.append(bytes, static_cast<size_t>(count));
    }
    if (rest_.empty()) return std::nullopt;
    std::string line = rest_.substr(0, end);
    rest_.erase(0, end == std::string::npos ? end : end + 1);
    return line;
  }

 private:
  const Interrupt& interrupt_;
  std::string rest_;  // read, not yet returned
};

// Asks with what was said so far; the answer joins it.
absl::Status Turn(Client& client, Interrupt& interrupt, const AnswerOptions& options,
                  v1::Prompt& prompt) {
  CallScope scope(options.timeout.Deadline());
  const Interrupt::Cancels cancels(interrupt, scope);
  const Answer answer = Ask(client, scope, prompt, options);
  ShowRest(answer, options);
  Append(prompt, "assistant", answer.text);
  return answer.status;
}

absl::Status Run(const Options& options) {
  Interrupt interrupt;
  HEADWAY_ASSIGN_OR_RETURN(const std::unique_ptr<ClientTarget> target,
                           ClientTarget::Open(options.target, interrupt));
  v1::Prompt prompt;
  if (!options.system.empty()) Append(prompt, "system", options.system);
  if (!options.message.empty()) {
    Append(prompt, "user", options.message);
    return Turn(target->client(), interrupt, options.answer, prompt);
  }
  const bool by_hand = isatty(STDIN_FILENO) != 0;
  if (by_hand) std::fputs("Type a message and Enter; an empty line ends.\n", stderr);
  InputLines lines(interrupt);
  for (int number = 1;; ++number) {
    if (by_hand) std::fputs("> ", stderr);
    const std::optional<std::string> line = lines.Next();
    if (!line || (by_hand && line->empty())) return absl::OkStatus();
    if (line->empty()) continue;
    if (const std::optional<size_t> at = FindInvalidUtf8(*line)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", number, " of standard input, ", Quoted(*line), ", is not UTF-8 at byte ", *at));
    }
    Append(prompt, "user", *line);
    HEADWAY_RETURN_IF_ERROR(Turn(target->client(), interrupt, options.answer, prompt));
  }
}

VerbRunner Declare(Flags& flags) {
  const auto options = std::make_shared<Options>();
  flags.Section("What to say");
  flags.AddArgument("MESSAGE", &options->message, /*required=*/false,
                    {.value = "",
                     .help = "one message; without it, a conversation: a message a line "
                             "of standard input, until that ends"});
  flags.Add("--system", &options->system,
            {.value = "TEXT", .help = "a system message before all others"});
  AddClientTargetFlags(flags, &options->target);
  AddAnswerFlags(flags, &options->answer);
  return [options] { return Run(*options); };
}

}  // namespace

Verb ChatVerb() {
  return {
      {.verb = "chat",
       .summary = "a conversation in the checkpoint's own chat template",
       .description =
           "Sends each message with everything said before it to a router over gRPC, and writes "
           "the "
           "answer to standard output as it comes. With --model it starts a private cluster and "
           "stops it at the end.",
       .example = "headway chat --model model.gguf\n"
                  "headway chat --address 127.0.0.1:7000 \"Name three rivers in Europe.\""},
      &Declare};
}

}  // namespace headway
