#ifndef HEADWAY_RUNTIME_MAIN_ANSWER_H_
#define HEADWAY_RUNTIME_MAIN_ANSWER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/headway/v1/inference.pb.h"
#include "runtime/main/flags.h"
#include "runtime/main/stream_stats.h"
#include "runtime/main/timeout_flag.h"
#include "runtime/server/client.h"

namespace headway {

// What `generate` and `chat` share: how to ask, and how to show what comes.

struct AnswerOptions {
  v1::GenerateOptions generate;
  bool json = false;
  bool stats = false;
  AnswerTimeout timeout;
};

// Adds the flags of sampling, of limits and of output.
void AddAnswerFlags(Flags& flags, AnswerOptions* options);

// An answer, or what came of it.
struct Answer {
  // Not OK: the answer is not whole, and there is no summary.
  absl::Status status = absl::OkStatus();
  std::string text;
  std::vector<v1::OutputToken> tokens;
  v1::GenerateSummary summary;
  // What the router told before the first token; unset where the request did not get that far.
  std::optional<v1::GenerateStart> start = std::nullopt;
  StreamStats stats;
};

// Sends the request in `scope`, whose deadline is that of options.timeout, and waits for its whole
// answer. Unless options.json, text is written to
// standard output as it comes, and a line feed behind it; where the model has no tokenizer, the
// token ids in place of text, separated by commas.
Answer Ask(Client& client, CallScope& scope, const v1::Prompt& prompt,
           const AnswerOptions& options);

// The answer as one JSON object without line feeds:
// {"token_ids": [...], "text": "...", "finish_reason": "stop|length|cancelled", "prompt_tokens": n,
//  "seed": n, "logprobs": [[[id, logprob], ...], ...], "timings": {...}}
// An entry of "logprobs" holds the most likely tokens, most likely first, and behind them the
// chosen one where it is not among them; the key is left out when none were asked for.
// Of an answer that is not whole the finish reason is "cancelled", "error" says why, and what only
// a summary tells is left out. "prompt_tokens" and "seed" are there unless the router had not taken
// the request yet.
std::string AnswerJson(const Answer& answer);

// Several lines for people: TTFT, ITL, speed, KV bytes moved.
std::string AnswerStats(const Answer& answer);

// Prints what the options ask for beside the streamed text: AnswerJson, and AnswerStats of a whole
// answer on standard error.
void ShowRest(const Answer& answer, const AnswerOptions& options);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_ANSWER_H_
