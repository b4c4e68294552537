#include <cmath>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/main/client_target.h"
#include "runtime/main/interrupt.h"
#include "runtime/main/prompt_flags.h"
#include "runtime/main/timeout_flag.h"
#include "runtime/main/verb.h"
#include "runtime/request/validate.h"

namespace headway {
namespace {

struct Options {
  ClientTargetOptions target;
  v1::Prompt prompt;
  int top = 0;
  bool json = false;
  AnswerTimeout timeout;
};

void PrintJson(const v1::ScoreResponse& response) {
  using Json = nlohmann::ordered_json;
  Json logprobs = Json::array();
  for (float logprob : response.token_logprobs()) logprobs.push_back(logprob);
  Json top = Json::array();
  for (const v1::TokenLogprobs& position : response.top()) {
    Json entry = Json::array();
    for (const v1::TokenLogprob& token : position.tokens()) {
      entry.push_back({token.id(), token.logprob()});
    }
    top.push_back(std::move(entry));
  }
  Json ids = Json::array();
  for (int32_t id : response.token_ids()) ids.push_back(id);
  const Json json = {{"token_logprobs", std::move(logprobs)},
                     {"top", std::move(top)},
                     {"token_ids", std::move(ids)}};
  std::printf("%s\n", json.dump().c_str());
}

void PrintTable(const v1::ScoreResponse& response) {
  std::printf("%9s %9s %9s", "position", "token", "logprob");
  std::printf(response.top().empty() ? "\n" : "  most likely\n");
  double sum = 0;
  for (int i = 0; i < response.token_logprobs_size(); ++i) {
    sum += response.token_logprobs(i);
    std::printf("%9d %9d %9.4f", i + 1, response.token_ids(i + 1), response.token_logprobs(i));
    if (i < response.top_size()) {
      for (const v1::TokenLogprob& token : response.top(i).tokens()) {
        std::printf("  %d %.4f", token.id(), token.logprob());
      }
    }
    std::printf("\n");
  }
  const int count = response.token_logprobs_size();
  std::printf("%d tokens scored, log-probability %.4f, perplexity %.4f\n", count, sum,
              count == 0 ? 1.0 : std::exp(-sum / count));
}

absl::Status Run(const Options& options) {
  Interrupt interrupt;
  HEADWAY_ASSIGN_OR_RETURN(const std::unique_ptr<ClientTarget> target,
                           ClientTarget::Open(options.target, interrupt));
  v1::ScoreRequest request;
  *request.mutable_prompt() = options.prompt;
  request.set_top(options.top);
  CallScope scope(options.timeout.Deadline());
  const Interrupt::Cancels cancels(interrupt, scope);
  const absl::StatusOr<v1::ScoreResponse> response = target->client().Score(scope, request);
  if (!response.ok()) return options.timeout.Explain(response.status(), scope);
  if (options.json) {
    PrintJson(*response);
  } else {
    PrintTable(*response);
  }
  return absl::OkStatus();
}

VerbRunner Declare(Flags& flags) {
  const auto options = std::make_shared<Options>();
  AddPromptFlags(flags, &options->prompt);
  AddClientTargetFlags(flags, &options->target);
  flags.Section("Output");
  flags.Add("--top", &options->top, 0, kMaxLogprobs,
            {.value = "N", .help = "also the N most likely tokens at each position"});
  AddTimeoutFlag(flags, &options->timeout);
  flags.Switch("--json", &options->json, "one JSON object in place of the table");
  return [options] { return Run(*options); };
}

}  // namespace

Verb ScoreVerb() {
  return {
      {.verb = "score",
       .summary = "the log-probability of each token of a given text",
       .description =
           "Sends a text of at least two tokens to a router over gRPC and prints, for each token "
           "after the first, its natural log-probability after those before it.",
       .example = "headway score --model model.gguf --prompt \"Paris is in France.\" --top 3"},
      &Declare};
}

}  // namespace headway
