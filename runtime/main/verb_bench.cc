#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/main/bench_options.h"
#include "runtime/main/model_flags.h"
#include "runtime/main/node_flags.h"
#include "runtime/main/verb.h"

namespace headway {
namespace {

VerbRunner Declare(Flags& flags) {
  const auto options = std::make_shared<BenchMainOptions>();
  constexpr int kMaxTokens = 10'000'000;
  flags.Section("Model and numerics");
  AddModelFlags(flags, /*model_required=*/true, &options->model);
  flags.Add("--tp", &options->tp, 1, kMaxDegree, {.value = "N", .help = "tensor-parallel degree"});
  flags.Section("What to measure");
  flags.AddList("--prefill", &options->prefill_tokens, 0, kMaxTokens,
                {.value = "N,N,...", .help = "prompt lengths in tokens; 0: none"});
  flags.AddList("--batch", &options->batches, 0, 1024,
                {.value = "N,N,...", .help = "sequences that decode at once; 0: none"});
  flags.Add("--context", &options->short_context, 1, kMaxTokens,
            {.value = "N", .help = "tokens in the cache before the rows of --batch"});
  flags.Add("--decode-tokens", &options->decode_tokens, 1, kMaxTokens,
            {.value = "N", .help = "decode steps measured in each row"});
  flags.Add(
      "--long-context", &options->long_context, 0, kMaxTokens,
      {.value = "N", .help = "tokens in the cache before the last decode row; 0: no such row"});
  flags.Add(
      "--repeats", &options->repeats, 1, 1000,
      {.value = "N", .help = "runs of each row after one that warms up; the median is printed"});
  flags.Add("--first-token", &options->first_token, 1, kMaxTokens,
            {.value = "N",
             .help = "measure instead how long it takes to load the model, compute a prompt of N "
                     "tokens and have the first token",
             .default_text = "off"});
  flags.Check([options]() -> std::optional<std::string> {
    std::erase(options->prefill_tokens, 0);
    std::erase(options->batches, 0);
    return std::nullopt;
  });
  flags.Section("Output");
  flags.Switch("--json", &options->json, "one object a row in place of the table");
  return [options] { return RunBench(*options); };
}

}  // namespace

Verb BenchVerb() {
  return {
      {.verb = "bench",
       .summary = "measures prefill and decode tokens/s beside the machine's memory bandwidth",
       .description =
           "Runs one mixed node in this process and prints tokens/s of prefill and of decode, and "
           "the weight bytes/s that this means beside what the machine's memory can give, measured "
           "in the same run.",
       .example = "headway bench --model model.gguf --threads 2"},
      &Declare};
}

}  // namespace headway
