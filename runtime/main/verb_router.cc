#include <memory>

#include "runtime/main/node_flags.h"
#include "runtime/main/router_options.h"
#include "runtime/main/verb.h"

namespace headway {
namespace {

VerbRunner Declare(Flags& flags) {
  const auto options = std::make_shared<RouterMainOptions>();
  flags.AddAddress(
      "--listen", &options->listen, /*lowest_port=*/0,
      {.value = "HOST:PORT", .help = "where clients reach it; port 0: any free one, printed"});
  flags.Add("--model", &options->model,
            {.value = "PATH",
             .help = "checkpoint whose tokenizer and chat template it uses, the one that the nodes "
                     "serve; needed"});
  flags.Section("Nodes: mixed ones, or prefill and decode ones, or all");
  flags.AddAddresses("--prefill", &options->prefill,
                     {.value = "HOST:PORT,...", .help = "addresses of prefill nodes"});
  flags.AddAddresses("--decode", &options->decode,
                     {.value = "HOST:PORT,...", .help = "addresses of decode nodes"});
  flags.AddAddresses("--mixed", &options->mixed,
                     {.value = "HOST:PORT,...", .help = "addresses of mixed nodes"});
  flags.Section("Under a launcher");
  flags.Add("--ready-fd", &options->ready_fd, -1, kMaxFd,
            {.value = "FD",
             .help = "descriptor that gets one line {\"address\": \"HOST:PORT\"} once it serves",
             .default_text = "none"});
  flags.Check([options]() -> std::optional<std::string> {
    if (options->model.empty()) return "--model PATH is needed";
    if (options->prefill.empty() != options->decode.empty()) {
      return "--prefill and --decode nodes need each other; give both";
    }
    if (options->prefill.empty() && options->mixed.empty()) {
      return "give the nodes: --prefill and --decode, or --mixed";
    }
    return std::nullopt;
  });
  return [options] { return RunRouter(*options); };
}

}  // namespace

Verb RouterVerb() {
  return {{.verb = "router",
           .summary = "the public gRPC port in front of nodes",
           .description =
               "Takes prompts as text, token ids or chat messages, chooses nodes for each, and "
               "streams the answer as text. It serves headway.v1.Inference, gRPC health and "
               "reflection. SIGTERM lets running requests end before it exits; ctrl-C too.",
           .example = "headway router --prefill 10.0.0.1:7001 --decode 10.0.0.2:7001 --model "
                      "model.gguf --listen 0.0.0.0:7000"},
          &Declare};
}

}  // namespace headway
