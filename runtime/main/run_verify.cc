// `headway verify`: the contract's rows on this machine and checkpoint, as a table.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/experiment/verify/engine_rows.h"
#include "runtime/experiment/verify/verify.h"
#include "runtime/experiment/verify/work.h"
#include "runtime/main/model_flags.h"
#include "runtime/main/node_setup.h"
#include "runtime/main/verify_cluster.h"
#include "runtime/main/verify_options.h"
#include "runtime/main/verify_rows.h"

namespace headway {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWorkTokens = 161;  // steps are counted at positions 5, 10, ... 160

// Ids without meaning, different from their neighbours; the same on every machine.
std::vector<int32_t> MakePrompt(int tokens, int vocabulary) {
  std::vector<int32_t> prompt(tokens);
  for (int i = 0; i < tokens; ++i)
    prompt[i] = static_cast<int32_t>((i * int64_t{7919} + 13) % vocabulary);
  return prompt;
}

void PrintRow(const RowOutcome& row, bool json) {
  if (json) {
    Json object = {{"row", row.name},
                   {"equal", row.equal()},
                   {"tokens", row.tokens},
                   {"positions", row.positions},
                   {"seconds", row.seconds}};
    if (!row.status.ok()) object["error"] = std::string(row.status.message());
    if (row.difference.has_value()) {
      object["first_difference"] = {{"position", row.difference->position},
                                    {"where", row.difference->ToString()}};
    }
    std::printf("%s\n", object.dump().c_str());
  } else {
    const std::string verdict = !row.status.ok() ? "FAILED: " + std::string(row.status.message())
                                : row.difference.has_value()
                                    ? "DIFFERS at " + row.difference->ToString()
                                    : "same bits";
    std::printf("%s\n", absl::StrFormat("%-40s %7d %10d %8.1f s  %s", row.name, row.tokens,
                                        row.positions, row.seconds, verdict)
                            .c_str());
  }
  std::fflush(stdout);
}

void PrintWork(const WorkTable& work, bool json) {
  if (json) {
    Json object = {{"projections",
                    {{"five_cached", work.five_cached},
                     {"five_uncached", work.five_uncached},
                     {"sixth_cached", work.sixth_cached},
                     {"sixth_uncached", work.sixth_uncached}}}};
    for (size_t i = 0; i < work.cached.size(); ++i) {
      object["steps"].push_back(
          {{"position", work.cached[i].position},
           {"cached",
            {{"projections", work.cached[i].projections}, {"keys", work.cached[i].attended_keys}}},
           {"uncached",
            {{"projections", work.uncached[i].projections},
             {"keys", work.uncached[i].attended_keys}}}});
    }
    std::printf("%s\n", object.dump().c_str());
    return;
  }
  std::printf(
      "\nK/V projections, counted: five tokens cost %ld with the cache and %ld without; a sixth "
      "costs %ld and %ld.\n",
      static_cast<long>(work.five_cached), static_cast<long>(work.five_uncached),
      static_cast<long>(work.sixth_cached), static_cast<long>(work.sixth_uncached));
  std::printf("\nWork of one step (per layer)         with the cache                 without\n");
  std::printf("%8s %25s %11s %15s %11s\n", "position", "projections", "keys met", "projections",
              "keys met");
  for (size_t i = 0; i < work.cached.size(); ++i) {
    std::printf("%8d %25ld %11ld %15ld %11ld\n", work.cached[i].position,
                static_cast<long>(work.cached[i].projections),
                static_cast<long>(work.cached[i].attended_keys),
                static_cast<long>(work.uncached[i].projections),
                static_cast<long>(work.uncached[i].attended_keys));
  }
  std::printf(
      "A step with the cache grows linearly with the position, a sequence quadratically; without "
      "it a step grows\n"
      "quadratically, a sequence with the cube.\n");
}

}  // namespace

absl::Status RunVerify(const VerifyMainOptions& options) {
  HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                           Checkpoint::Open(options.model.model));
  HEADWAY_ASSIGN_OR_RETURN(const NodeSetup setup, SettleNode(*checkpoint, options.model, 1, {}));
  HEADWAY_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(*checkpoint));
  HEADWAY_ASSIGN_OR_RETURN(const ShardPlan plan, MakeShardPlan(config, 1));
  const int max_degree = std::min(options.max_degree, plan.attention_groups());
  if (options.prompt_tokens + options.max_tokens > config.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--prompt-tokens ", options.prompt_tokens, " and --max-tokens ", options.max_tokens,
        " exceed the checkpoint's ", config.max_positions, " positions"));
  }
  VerifyCase request;
  request.prompt = MakePrompt(options.prompt_tokens, config.vocabulary);
  // Sampling at a temperature makes the tokens depend on every bit of the logits, not on the
  // largest alone.
  request.sampling = {.temperature = 0.8f,
                      .top_p = 0.95f,
                      .seed = options.seed,
                      .max_tokens = options.max_tokens,
                      .ignore_eos = true};

  LocalGroupOptions base;
  base.engine = setup.Engine();
  base.engine.limits.max_positions = options.prompt_tokens + options.max_tokens;
  // The trace takes the logits of every row, and one row takes the whole prompt at once.
  base.engine.limits.max_logit_rows =
      std::max(base.engine.limits.max_logit_rows, options.prompt_tokens);
  std::vector<std::unique_ptr<VerifyRow>> rows;
  rows.push_back(NewUncachedRow(*checkpoint, base.engine));
  for (std::unique_ptr<VerifyRow>& row :
       options.full ? EngineProduct(*checkpoint, base, max_degree, options.axes)
                    : EngineRows(*checkpoint, base, max_degree, options.axes)) {
    rows.push_back(std::move(row));
  }

  const bool nodes =
      std::find(options.axes.begin(), options.axes.end(), VerifyAxis::kNodes) != options.axes.end();
  std::fprintf(
      stderr, "headway verify: %d prompt tokens, %d output tokens, numerics %s%s\n",
      options.prompt_tokens, options.max_tokens, NumericsId(*checkpoint, setup.numerics).c_str(),
      nodes
          ? absl::StrCat("; starting ", 3 * max_degree, " nodes for the rows of several processes")
                .c_str()
          : "");
  std::unique_ptr<VerifyCluster> cluster;
  if (nodes) {
    std::vector<std::string> flags = ModelFlagsOf(options.model);
    if (options.model.threads == 0) flags.insert(flags.end(), {"--threads", "1"});
    HEADWAY_ASSIGN_OR_RETURN(cluster, VerifyCluster::Start({.model = options.model.model,
                                                            .node_flags = std::move(flags),
                                                            .max_degree = max_degree,
                                                            .max_positions = options.prompt_tokens +
                                                                             options.max_tokens}));
    for (std::unique_ptr<VerifyRow>& row : cluster->Rows()) rows.push_back(std::move(row));
  }

  if (!options.json) {
    std::printf("%-40s %7s %10s %8s    against the first row\n", "row", "tokens", "positions",
                "time");
  }
  int ended = 0;
  const absl::Status verdict = Verify(request, rows, [&](const RowOutcome& outcome) {
    PrintRow(outcome, options.json);
    // The table itself is the progress where it is looked at.
    if (++ended < static_cast<int>(rows.size()) && isatty(STDOUT_FILENO) == 0) {
      std::fprintf(stderr, "headway verify: %d of %zu rows\n", ended, rows.size());
    }
  });
  const std::vector<int32_t> work_tokens =
      MakePrompt(std::min(kWorkTokens, config.max_positions), config.vocabulary);
  EngineOptions work_engine = setup.Engine();
  HEADWAY_ASSIGN_OR_RETURN(const WorkTable work, CountWork(*checkpoint, work_engine, work_tokens));
  PrintWork(work, options.json);
  return verdict;
}

}  // namespace headway
