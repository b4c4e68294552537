#include "runtime/main/answer.h"

#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/utf8.h"
#include "runtime/request/sampling_params.h"
#include "runtime/request/validate.h"

namespace headway {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxTokens = 1'000'000'000;

const char* FinishName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    case v1::FINISH_REASON_CANCELLED:
      return "cancelled";
    default:
      return "unknown";
  }
}

Json LogprobsOf(const v1::OutputToken& token) {
  Json entry = Json::array();
  bool chosen_is_there = false;
  for (const v1::TokenLogprob& top : token.top()) {
    entry.push_back({top.id(), top.logprob()});
    chosen_is_there |= top.id() == token.id();
  }
  if (!chosen_is_there) entry.push_back({token.id(), token.logprob()});
  return entry;
}

// What is typed; moved into the message once all of it is known to be right.
struct Typed {
  std::optional<int> max_tokens, logprobs;
  int min_tokens = 0, top_k = 0;
  float temperature = 0, top_p = 1;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::vector<int> stop_token_ids;
  bool ignore_eos = false;
};

// What the ranges of single flags do not say.
std::optional<std::string> MistakeIn(const Typed& typed) {
  if (typed.top_p == 0) return "--top-p: \"0\" is not above 0, at most 1";
  const int most_tokens = typed.max_tokens.value_or(SamplingParams().max_tokens);
  if (typed.min_tokens > most_tokens) {
    return absl::StrCat("--min-tokens: \"", typed.min_tokens, "\" is above --max-tokens, which is ",
                        most_tokens);
  }
  if (typed.stop.size() > kMaxStopStrings) {
    return absl::StrCat("--stop is given ", typed.stop.size(), " times, at most ", kMaxStopStrings);
  }
  for (const std::string& stop : typed.stop) {
    if (stop.empty() || stop.size() > kMaxStopStringBytes) {
      return absl::StrCat("--stop: ", Quoted(stop), " has ", stop.size(), " bytes, must have 1 to ",
                          kMaxStopStringBytes);
    }
  }
  if (typed.stop_token_ids.size() > kMaxStopTokens) {
    return absl::StrCat("--stop-token-ids has ", typed.stop_token_ids.size(), " ids, at most ",
                        kMaxStopTokens);
  }
  return std::nullopt;
}

// The ids of `tokens` from index `first` on, as they continue a comma-separated list.
std::string IdsAfter(size_t first, const std::vector<v1::OutputToken>& tokens) {
  std::string ids;
  for (size_t i = first; i < tokens.size(); ++i) {
    absl::StrAppend(&ids, i == 0 ? "" : ",", tokens[i].id());
  }
  return ids;
}

double Millis(int64_t nanos) { return static_cast<double>(nanos) * 1e-6; }

}  // namespace

void AddAnswerFlags(Flags& flags, AnswerOptions* options) {
  const auto typed = std::make_shared<Typed>();
  flags.Section("How to choose tokens");
  flags.Add("--temperature", &typed->temperature, 0, kMaxTemperature,
            {.value = "T", .help = "0: always the most likely token; more: more variety"});
  flags.Add("--top-k", &typed->top_k, 0, kMaxTokens,
            {.value = "K", .help = "only among the K most likely tokens; 0: all"});
  flags.Add(
      "--top-p", &typed->top_p, 0, 1,
      {.value = "P", .help = "only among the fewest tokens whose probability reaches P; 1: all"});
  flags.Add("--seed", &typed->seed,
            {.value = "N",
             .help = "of the random draws; the same seed gives the same answer",
             .default_text = "chosen by the router"});
  flags.Section("Where to end");
  flags.Add("--max-tokens", &typed->max_tokens, 1, kMaxTokens,
            {.value = "N",
             .help = "most output tokens",
             .default_text = "128, or what the model's longest sequence leaves"});
  flags.Add("--min-tokens", &typed->min_tokens, 0, kMaxTokens,
            {.value = "N", .help = "no end before this many output tokens"});
  flags.AddRepeated("--stop", &typed->stop,
                    {.value = "TEXT",
                     .help = "end where this text appears, before it; may be given several times"});
  flags.AddList("--stop-token-ids", &typed->stop_token_ids, 0, kMaxTokens,
                {.value = "ID,ID,...", .help = "end at one of these tokens"});
  flags.Switch("--ignore-eos", &typed->ignore_eos, "go on after the model's own end token");
  AddTimeoutFlag(flags, &options->timeout);
  flags.Section("Output");
  flags.Add("--logprobs", &typed->logprobs, 0, kMaxLogprobs,
            {.value = "N",
             .help = "with --json: log-probabilities of each output token and of the N most likely",
             .default_text = "none"});
  flags.Switch(
      "--json", &options->json,
      "in place of streamed text one JSON object an answer: token_ids, text, finish_reason (stop, "
      "length, cancelled), prompt_tokens, seed, logprobs, timings; and error, where the "
      "answer is not whole (without prompt_tokens and seed where the router had not taken the "
      "request)");
  flags.Switch("--stats", &options->stats,
               "also print times, speed and KV bytes moved, on standard error");
  flags.Check([=]() -> std::optional<std::string> {
    if (std::optional<std::string> mistake = MistakeIn(*typed)) return mistake;
    if (typed->logprobs.has_value() && !options->json) {
      return "--logprobs goes with --json, which alone prints log-probabilities";
    }
    v1::GenerateOptions& out = options->generate;
    out.set_temperature(typed->temperature);
    out.set_top_k(typed->top_k);
    out.set_top_p(typed->top_p);
    if (typed->seed.has_value()) out.set_seed(*typed->seed);
    if (typed->max_tokens.has_value()) out.set_max_tokens(*typed->max_tokens);
    out.set_min_tokens(typed->min_tokens);
    for (const std::string& stop : typed->stop) out.add_stop(stop);
    for (int id : typed->stop_token_ids) out.add_stop_token_ids(id);
    out.set_ignore_eos(typed->ignore_eos);
    if (typed->logprobs.has_value()) out.set_logprobs(*typed->logprobs);
    return std::nullopt;
  });
}

Answer Ask(Client& client, CallScope& scope, const v1::Prompt& prompt,
           const AnswerOptions& options) {
  v1::GenerateRequest request;
  *request.mutable_prompt() = prompt;
  *request.mutable_options() = options.generate;
  const Clock& clock = Clock::Real();
  Answer answer{.text = "", .tokens = {}, .summary = {}, .stats = StreamStats(clock.NowNanos())};
  // Text can only be missing where the prompt was none.
  bool as_ids = false;
  bool something_shown = false;
  if (!options.json && prompt.has_token_ids()) {
    const absl::StatusOr<v1::Model> model = client.GetModel(scope);
    as_ids = model.ok() && !model->has_tokenizer();
  }
  const auto on_response = [&](const v1::GenerateResponse& response) {
    if (response.has_start()) answer.start = response.start();
    answer.stats.Add(clock.NowNanos(), response.tokens_size());
    answer.tokens.insert(answer.tokens.end(), response.tokens().begin(), response.tokens().end());
    answer.text += response.text();
    const std::string shown =
        as_ids ? IdsAfter(answer.tokens.size() - response.tokens_size(), answer.tokens)
               : response.text();
    if (!options.json && !shown.empty()) {
      something_shown = true;
      std::fwrite(shown.data(), 1, shown.size(), stdout);
      // Who reads the stream may have left: the answer is then of no use.
      if (std::fflush(stdout) != 0) return false;
    }
    return true;
  };
  absl::StatusOr<v1::GenerateSummary> summary = client.Generate(scope, request, on_response);
  if (something_shown) std::fputs("\n", stdout);
  answer.status = options.timeout.Explain(summary.status(), scope);
  if (summary.ok()) answer.summary = *std::move(summary);
  return answer;
}

std::string AnswerJson(const Answer& answer) {
  Json ids = Json::array();
  Json logprobs = Json::array();
  bool has_logprobs = false;
  for (const v1::OutputToken& token : answer.tokens) {
    ids.push_back(token.id());
    has_logprobs |= token.has_logprob();
    logprobs.push_back(LogprobsOf(token));
  }
  const bool whole = answer.status.ok();
  Json json = {{"token_ids", std::move(ids)},
               {"text", answer.text},
               {"finish_reason",
                FinishName(whole ? answer.summary.finish_reason() : v1::FINISH_REASON_CANCELLED)}};
  Json times = Json::object();
  if (whole || answer.start.has_value()) {
    json["prompt_tokens"] = whole ? answer.summary.prompt_tokens() : answer.start->prompt_tokens();
    json["seed"] = whole ? answer.summary.seed() : answer.start->seed();
  }
  if (whole) {
    const v1::GenerateTimings& timings = answer.summary.timings();
    times = {{"tokenize_us", timings.tokenize_us()},   {"reserve_us", timings.reserve_us()},
             {"queue_us", timings.queue_us()},         {"prefill_us", timings.prefill_us()},
             {"transfer_us", timings.transfer_us()},   {"first_token_us", timings.first_token_us()},
             {"total_us", timings.total_us()},         {"kv_bytes", timings.kv_bytes()},
             {"prefill_node", timings.prefill_node()}, {"decode_node", timings.decode_node()}};
  } else {
    json["error"] = std::string(answer.status.message());
  }
  if (has_logprobs) json["logprobs"] = std::move(logprobs);
  times.update({{"client_ttft_us", answer.stats.ttft_nanos() / 1000},
                {"client_itl_p50_us", answer.stats.ItlNanos(0.5) / 1000},
                {"client_itl_p99_us", answer.stats.ItlNanos(0.99) / 1000},
                {"client_tokens_per_second", answer.stats.TokensPerSecond()}});
  json["timings"] = std::move(times);
  return json.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string AnswerStats(const Answer& answer) {
  const v1::GenerateTimings& timings = answer.summary.timings();
  std::string moved = FormatBytes(timings.kv_bytes());
  if (timings.kv_bytes() > 0) {
    absl::StrAppendFormat(&moved, " (%d bytes), %s to %s", timings.kv_bytes(),
                          timings.prefill_node(), timings.decode_node());
  }
  return absl::StrFormat(
      "tokens      %d of prompt, %d of answer (%s)\n"
      "TTFT        %.1f ms\n"
      "ITL         p50 %.1f ms, p99 %.1f ms\n"
      "speed       %.1f tokens/s\n"
      "KV moved    %s\n",
      answer.summary.prompt_tokens(), answer.summary.output_tokens(),
      FinishName(answer.summary.finish_reason()), Millis(answer.stats.ttft_nanos()),
      Millis(answer.stats.ItlNanos(0.5)), Millis(answer.stats.ItlNanos(0.99)),
      answer.stats.TokensPerSecond(), moved);
}

void ShowRest(const Answer& answer, const AnswerOptions& options) {
  if (options.json) std::printf("%s\n", AnswerJson(answer).c_str());
  std::fflush(stdout);
  if (options.stats && answer.status.ok())
    std::fprintf(stderr, "\n%s", AnswerStats(answer).c_str());
}

}  // namespace headway
