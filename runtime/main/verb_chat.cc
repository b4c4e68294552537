#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/main/answer.h"
#include "runtime/main/client_target.h"
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

// Asks with what was said so far; the answer joins it.
absl::Status Turn(Client& client, const AnswerOptions& options, v1::Prompt& prompt) {
  HEADWAY_ASSIGN_OR_RETURN(const Answer answer, Ask(client, prompt, options));
  if (options.json) std::printf("%s\n", AnswerJson(answer).c_str());
  if (options.stats) std::fprintf(stderr, "\n%s", AnswerStats(answer).c_str());
  std::fflush(stdout);
  Append(prompt, "assistant", answer.text);
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  HEADWAY_ASSIGN_OR_RETURN(const std::unique_ptr<ClientTarget> target,
                           ClientTarget::Open(options.target));
  v1::Prompt prompt;
  if (!options.system.empty()) Append(prompt, "system", options.system);
  if (!options.message.empty()) {
    Append(prompt, "user", options.message);
    return Turn(target->client(), options.answer, prompt);
  }
  const bool by_hand = isatty(STDIN_FILENO) != 0;
  if (by_hand) std::fputs("Type a message and Enter; an empty line ends.\n", stderr);
  std::string line;
  while (true) {
    if (by_hand) std::fputs("> ", stderr);
    if (!std::getline(std::cin, line) || (by_hand && line.empty())) return absl::OkStatus();
    if (line.empty()) continue;
    Append(prompt, "user", line);
    HEADWAY_RETURN_IF_ERROR(Turn(target->client(), options.answer, prompt));
  }
}

VerbRunner Declare(Flags& flags) {
  const auto options = std::make_shared<Options>();
  flags.Section("What to say");
  flags.AddArgument("MESSAGE", &options->message, /*required=*/false,
                    {.value = "",
                     .help = "one message; without it, a conversation: a message a line "
                             "of standard input"});
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
