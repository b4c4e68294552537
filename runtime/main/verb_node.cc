#include <memory>

#include "runtime/main/model_flags.h"
#include "runtime/main/node_flags.h"
#include "runtime/main/node_options.h"
#include "runtime/main/verb.h"

namespace headway {
namespace {

VerbRunner Declare(Flags& flags) {
  const auto options = std::make_shared<NodeMainOptions>();
  AddRoleFlag(flags, &options->role);
  flags.Add(
      "--tp", &options->tp, 1, kMaxDegree,
      {.value = "N", .help = "tensor-parallel degree: processes that share the model's heads"});
  flags.AddAddress(
      "--listen", &options->listen, /*lowest_port=*/0,
      {.value = "HOST:PORT", .help = "where the router reaches the node; port 0: any free one"});
  flags.Add("--stuck-seconds", &options->stuck_seconds, 1, 86'400,
            {.value = "N",
             .help = "the node counts as dead when no step has ended for this long although "
                     "something waits for one"});
  flags.Section("Model and numerics");
  AddModelFlags(flags, /*model_required=*/true, &options->model);
  flags.Section("KV cache");
  AddKvFlags(flags, options.get());
  flags.Section("Under a launcher");
  flags.Add("--name", &options->name,
            {.value = "NAME", .help = "what its log lines are signed with"});
  flags.Add("--ready-fd", &options->ready_fd, -1, kMaxFd,
            {.value = "FD",
             .help = "descriptor that gets one line {\"address\": \"HOST:PORT\"} once it serves",
             .default_text = "none"});
  return [options] { return RunNode(*options); };
}

}  // namespace

Verb NodeVerb() {
  return {
      {.verb = "node",
       .summary = "serves one tensor-parallel group: prefill, decode, or both",
       .description =
           "Loads a checkpoint, starts one process for each rank above 0, and serves a router. A "
           "prefill node computes prompts and pushes their KV cache to a decode node; a decode "
           "node continues them; a mixed node does both. SIGTERM lets running requests end "
           "before it exits; ctrl-C too. A node that does not serve yet dies of either at once, "
           "with its ranks; so does any at a second one.",
       .example = "headway node --role decode --tp 2 --model model.gguf --listen 0.0.0.0:7001"},
      &Declare};
}

}  // namespace headway
