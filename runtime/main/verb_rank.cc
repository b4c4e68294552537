#include <limits>
#include <memory>

#include "runtime/main/model_flags.h"
#include "runtime/main/node_flags.h"
#include "runtime/main/rank_options.h"
#include "runtime/main/verb.h"

namespace headway {
namespace {

VerbRunner Declare(Flags& flags) {
  const auto options = std::make_shared<RankMainOptions>();
  constexpr int kMax = std::numeric_limits<int>::max();
  AddRoleFlag(flags, &options->role);
  flags.Add("--rank", &options->rank, 1, kMaxDegree - 1,
            {.value = "N", .help = "its place, from 1"});
  flags.Add("--tp", &options->tp, 2, kMaxDegree, {.value = "N", .help = "ranks of the node"});
  flags.Add("--kv-blocks", &options->kv_blocks, 1, kMax,
            {.value = "N",
             .help = "blocks of 16 tokens, as its leader has",
             .default_text = "none, it is needed"});
  flags.Add(
      "--max-positions", &options->max_positions, 1, kMax,
      {.value = "N", .help = "longest sequence in tokens", .default_text = "none, it is needed"});
  flags.Add("--comm-fd", &options->comm_fd, 0, kMaxFd,
            {.value = "FD",
             .help = "inherited memory shared by the ranks",
             .default_text = "none, it is needed"});
  flags.Add(
      "--parent-pid", &options->parent_pid, 1, kMax,
      {.value = "PID", .help = "process id of its leader", .default_text = "none, it is needed"});
  AddKvDevicesFlag(flags, "all", &options->kv_devices);
  flags.Add("--name", &options->name,
            {.value = "NAME", .help = "what its log lines are signed with"});
  flags.Add("--ready-fd", &options->ready_fd, -1, kMaxFd,
            {.value = "FD",
             .help = "descriptor that gets a line once it is loaded",
             .default_text = "none"});
  flags.Section("Model and numerics");
  AddModelFlags(flags, /*model_required=*/true, &options->model);
  flags.Check([options]() -> std::optional<std::string> {
    if (options->comm_fd < 0 || options->parent_pid == 0) {
      return "a rank is started by its node's leader, with --comm-fd and --parent-pid";
    }
    if (options->kv_blocks == 0 || options->max_positions == 0) {
      return "--kv-blocks and --max-positions are needed";
    }
    if (options->rank >= options->tp) return "--rank must be below --tp";
    return std::nullopt;
  });
  return [options] { return RunRank(*options); };
}

}  // namespace

Verb RankVerb() {
  return {{.verb = "rank",
           .summary = "one rank of a node; `headway node` starts it",
           .description =
               "Holds one slice of the model and of the KV cache, and does what its node's leader "
               "says through memory that both share. Ends with its leader.",
           .example = "headway node --tp 2 --model model.gguf    (starts one)"},
          &Declare};
}

}  // namespace headway
