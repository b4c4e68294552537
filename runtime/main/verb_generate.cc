#include <memory>

#include "runtime/base/status.h"
#include "runtime/main/answer.h"
#include "runtime/main/client_target.h"
#include "runtime/main/interrupt.h"
#include "runtime/main/prompt_flags.h"
#include "runtime/main/verb.h"

namespace headway {
namespace {

struct Options {
  ClientTargetOptions target;
  v1::Prompt prompt;
  AnswerOptions answer;
};

absl::Status Run(const Options& options) {
  Interrupt interrupt;
  HEADWAY_ASSIGN_OR_RETURN(const std::unique_ptr<ClientTarget> target,
                           ClientTarget::Open(options.target, interrupt));
  CallScope scope(options.answer.timeout.Deadline());
  const Interrupt::Cancels cancels(interrupt, scope);
  const Answer answer = Ask(target->client(), scope, options.prompt, options.answer);
  ShowRest(answer, options.answer);
  return answer.status;
}

VerbRunner Declare(Flags& flags) {
  const auto options = std::make_shared<Options>();
  AddPromptFlags(flags, &options->prompt);
  AddClientTargetFlags(flags, &options->target);
  AddAnswerFlags(flags, &options->answer);
  return [options] { return Run(*options); };
}

}  // namespace

Verb GenerateVerb() {
  return {
      {.verb = "generate",
       .summary = "continues one prompt and streams the answer",
       .description =
           "Sends one prompt to a router over gRPC and writes the text to standard output as it "
           "comes. With --model it starts a private cluster for the one call and stops it again.",
       .example = "headway generate --model model.gguf --chat \"What is the capital of France?\"\n"
                  "headway generate --address 127.0.0.1:7000 --prompt \"Once upon a time\" "
                  "--temperature 0.8 --seed 7"},
      &Declare};
}

}  // namespace headway
