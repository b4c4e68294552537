#ifndef HEADWAY_RUNTIME_MAIN_ANSWER_H_
#define HEADWAY_RUNTIME_MAIN_ANSWER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/headway/v1/inference.pb.h"
#include "runtime/main/flags.h"
#include "runtime/main/stream_stats.h"
#include "runtime/server/client.h"

namespace headway {

// What `generate` and `chat` share: how to ask, and how to show what comes.

struct AnswerOptions {
  v1::GenerateOptions generate;
  bool json = false;
  bool stats = false;
  int timeout_seconds = 3600;  // for the whole answer
};

// Adds the flags of sampling, of limits and of output.
void AddAnswerFlags(Flags& flags, AnswerOptions* options);

// A whole answer.
struct Answer {
  std::string text;
  std::vector<v1::OutputToken> tokens;
  v1::GenerateSummary summary;
  StreamStats stats;
};

// Sends the request and waits for its whole answer. Unless options.json, text is written to
// standard output as it comes, and a line feed behind it.
absl::StatusOr<Answer> Ask(Client& client, const v1::Prompt& prompt, const AnswerOptions& options);

// The answer as one JSON object without line feeds:
// {"token_ids": [...], "text": "...", "finish_reason": "stop|length|cancelled", "prompt_tokens": n,
//  "logprobs": [[[id, logprob], ...], ...], "timings": {...}}
// An entry of "logprobs" holds the most likely tokens, most likely first, and behind them the
// chosen one where it is not among them; the key is left out when none were asked for.
std::string AnswerJson(const Answer& answer);

// Several lines for people: TTFT, ITL, speed, KV bytes moved.
std::string AnswerStats(const Answer& answer);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_ANSWER_H_
