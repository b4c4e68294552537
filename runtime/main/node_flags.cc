#include "runtime/main/node_flags.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/cluster/node_role.h"

namespace headway {

void AddRoleFlag(Flags& flags, std::string* role) {
  flags.AddChoice("--role", role,
                  {NodeRoleName(NodeRole::kPrefill), NodeRoleName(NodeRole::kDecode),
                   NodeRoleName(NodeRole::kMixed)},
                  {.value = "", .help = "what it does: compute prompts, continue them, or both"});
}

void AddKvDevicesFlag(Flags& flags, std::string default_text, std::string* devices) {
  flags.Add("--kv-devices", devices,
            {.value = "LIST",
             .help = "network devices over which KV blocks move, as UCX names them: eth0, "
                     "mlx5_0:1. Nothing is encrypted: name a private network",
             .default_text = std::move(default_text)});
}

void AddKvFlags(Flags& flags, NodeMainOptions* options) {
  flags.AddBytes("--kv-memory", &options->kv_memory,
                 {.value = "SIZE",
                  .help = "memory of the KV cache, all ranks together: 512MiB, 80GiB",
                  .default_text = absl::StrCat(kDefaultSequences,
                                               " sequences of the longest length, at most 1/",
                                               kMemoryShare, " of the machine's memory")});
  flags.Add("--kv-blocks", &options->kv_blocks, 1, std::numeric_limits<int>::max(),
            {.value = "N",
             .help = "size of the KV cache in blocks of 16 tokens, in place of --kv-memory",
             .default_text = "as many as --kv-memory holds"});
  flags.Add("--max-positions", &options->max_positions, 1, std::numeric_limits<int>::max(),
            {.value = "N",
             .help = "longest sequence, prompt and output together, in tokens",
             .default_text = "the checkpoint's own limit"});
  AddKvDevicesFlag(flags, "lo where --listen is a loopback address, else all",
                   &options->kv_devices);
  flags.Check([&flags]() -> std::optional<std::string> {
    if (flags.Given("--kv-blocks") && flags.Given("--kv-memory")) {
      return "--kv-blocks and --kv-memory say the same thing; give one";
    }
    return std::nullopt;
  });
}

std::vector<std::string> KvFlagsOf(const NodeMainOptions& options) {
  std::vector<std::string> flags;
  const auto add = [&flags](const char* name, int64_t value) {
    if (value > 0) flags.insert(flags.end(), {name, absl::StrCat(value)});
  };
  add("--kv-memory", options.kv_memory);
  add("--kv-blocks", options.kv_blocks);
  add("--max-positions", options.max_positions);
  if (!options.kv_devices.empty()) {
    flags.insert(flags.end(), {"--kv-devices", options.kv_devices});
  }
  return flags;
}

}  // namespace headway
