#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "runtime/base/bytes.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/kv/budget.h"
#include "runtime/main/model_flags.h"
#include "runtime/main/node_flags.h"
#include "runtime/main/verb.h"
#include "runtime/model/model_config.h"
#include "runtime/model/shard_plan.h"

namespace headway {
namespace {

constexpr DType kKvDTypes[] = {DType::kF16, DType::kBF16, DType::kF32};

struct Options {
  std::string model;
  int layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int positions = 0;  // 0: the checkpoint's limit
  int tp = 1;
  DType kv_dtype = ModelOptions().kv_dtype;
  int64_t memory = 0;  // 0: not asked
  bool json = false;
};

// The numbers as a model, to cut it between ranks; what does not decide where KV heads go is made
// up.
ModelConfig ConfigOf(const Options& options) {
  ModelConfig config;
  config.layers = options.layers;
  config.query_heads = options.heads;
  config.kv_heads = options.kv_heads;
  config.head_dim = options.head_dim;
  config.hidden = options.heads * options.head_dim;
  config.intermediate = config.hidden;
  config.vocabulary = config.hidden;
  return config;
}

absl::StatusOr<KvBudgetRequest> MakeRequest(const Options& options) {
  ModelConfig config = ConfigOf(options);
  if (!options.model.empty()) {
    HEADWAY_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                             Checkpoint::Open(options.model));
    HEADWAY_ASSIGN_OR_RETURN(config, ReadModelConfig(*checkpoint));
  }
  KvBudgetRequest request{
      .layers = config.layers,
      .query_heads = config.query_heads,
      .kv_heads = config.kv_heads,
      .head_dim = config.head_dim,
      .positions = options.positions > 0 ? options.positions : config.max_positions};
  if (options.memory > 0) request.memory_bytes = options.memory;
  // Numbers that make no model are named before it is cut.
  HEADWAY_RETURN_IF_ERROR(ComputeKvBudget(request).status());
  HEADWAY_ASSIGN_OR_RETURN(const ShardPlan plan, MakeShardPlan(config, options.tp));
  for (const RankShard& rank : plan.ranks) {
    request.kv_heads_per_rank.push_back(static_cast<int64_t>(rank.kv_heads.size()));
  }
  return request;
}

absl::Status PrintJson(KvBudgetRequest request, const Options& options) {
  request.dtype = options.kv_dtype;
  HEADWAY_ASSIGN_OR_RETURN(const KvBudget budget, ComputeKvBudget(request));
  nlohmann::ordered_json json = {{"kv_bytes", budget.kv_bytes},
                                 {"kv_bytes_per_rank", budget.kv_bytes_per_rank}};
  if (budget.sequences.has_value()) json["sequences"] = *budget.sequences;
  std::printf("%s\n", json.dump().c_str());
  return absl::OkStatus();
}

absl::Status PrintTable(KvBudgetRequest request, const Options& options) {
  std::printf("%d layers, %d query heads, %d KV heads of %d; one sequence of %d positions\n\n",
              static_cast<int>(request.layers), static_cast<int>(request.query_heads),
              static_cast<int>(request.kv_heads), static_cast<int>(request.head_dim),
              static_cast<int>(request.positions));
  std::printf("%-9s%-13s%-28s%s\n", "KV dtype", "in all", "on each rank",
              options.memory > 0
                  ? absl::StrCat("sequences in ", FormatBytes(options.memory), " a rank").c_str()
                  : "");
  for (DType dtype : kKvDTypes) {
    request.dtype = dtype;
    HEADWAY_ASSIGN_OR_RETURN(const KvBudget budget, ComputeKvBudget(request));
    const std::string ranks = absl::StrJoin(
        budget.kv_bytes_per_rank, ", ",
        [](std::string* out, int64_t bytes) { absl::StrAppend(out, FormatBytes(bytes)); });
    std::printf("%-9s%-13s%-28s%s\n", std::string(DTypeName(dtype)).c_str(),
                FormatBytes(budget.kv_bytes).c_str(), ranks.c_str(),
                budget.sequences.has_value() ? absl::StrCat(*budget.sequences).c_str() : "");
  }
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  HEADWAY_ASSIGN_OR_RETURN(const KvBudgetRequest request, MakeRequest(options));
  return options.json ? PrintJson(request, options) : PrintTable(request, options);
}

VerbRunner Declare(Flags& flags) {
  const auto options = std::make_shared<Options>();
  constexpr int kMax = std::numeric_limits<int>::max();
  flags.Section("The model: a checkpoint, or its numbers");
  flags.Add("--model", &options->model,
            {.value = "PATH", .help = "a .gguf file or a Hugging Face folder"});
  flags.Add("--layers", &options->layers, 1, 100'000,
            {.value = "N", .help = "layers", .default_text = "the checkpoint's"});
  flags.Add("--heads", &options->heads, 1, 10'000,
            {.value = "N", .help = "query heads", .default_text = "the checkpoint's"});
  flags.Add("--kv-heads", &options->kv_heads, 1, 10'000,
            {.value = "N", .help = "KV heads", .default_text = "the checkpoint's, else --heads"});
  flags.Add("--head-dim", &options->head_dim, 1, 10'000,
            {.value = "N", .help = "numbers in one head", .default_text = "the checkpoint's"});
  flags.Section("What it is to hold");
  flags.Add("--positions", &options->positions, 1, kMax,
            {.value = "N",
             .help = "tokens of one sequence, prompt and output together",
             .default_text = "the checkpoint's limit"});
  AddKvDTypeFlag(flags, &options->kv_dtype, "with --json: number format; the table shows all");
  flags.Add("--tp", &options->tp, 1, kMaxDegree,
            {.value = "N", .help = "ranks that share the heads"});
  flags.AddBytes("--memory", &options->memory,
                 {.value = "SIZE",
                  .help = "memory for the KV cache on each rank, such as 80GiB: how many sequences "
                          "fit",
                  .default_text = "not asked"});
  flags.Section("Output");
  flags.Switch("--json", &options->json,
               "one JSON object: kv_bytes, kv_bytes_per_rank, and sequences with --memory");
  flags.Check([&flags, options]() -> std::optional<std::string> {
    const char* const numbers[] = {"--layers", "--heads", "--kv-heads", "--head-dim"};
    for (const char* name : numbers) {
      if (flags.Given("--model") && flags.Given(name)) {
        return absl::StrCat(name, " and --model say the same thing; give one");
      }
      if (!flags.Given("--model") && !flags.Given(name) && name != numbers[2]) {
        return absl::StrCat("give --model, or --layers, --heads and --head-dim (", name,
                            " is missing)");
      }
    }
    if (!flags.Given("--model") && !flags.Given("--positions")) return "--positions is needed";
    if (flags.Given("--memory") && options->memory == 0) return "--memory must be above 0";
    if (!flags.Given("--kv-heads")) options->kv_heads = options->heads;
    return std::nullopt;
  });
  return [options] { return Run(*options); };
}

}  // namespace

Verb BudgetVerb() {
  return {{.verb = "budget",
           .summary = "the KV memory of a model, and how many sequences fit",
           .description =
               "Prints 2 x layers x KV heads x head dim x positions x bytes of one number for each "
               "number format, in all and on each rank. A KV head whose query heads are on two "
               "ranks is stored on both.",
           .example = "headway budget --layers 32 --heads 32 --kv-heads 8 --head-dim 128 "
                      "--positions 32768 --memory 80GiB\nheadway budget --model model.gguf --tp 2"},
          &Declare};
}

}  // namespace headway
