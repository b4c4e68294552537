#include "runtime/main/rank_arguments.h"

#include "runtime/main/model_flags.h"

namespace headway {

std::vector<std::string> RankArguments(const RankMainOptions& options) {
  std::vector<std::string> args = {"rank"};
  auto add = [&args](const std::string& flag, const std::string& value) {
    args.push_back(flag);
    args.push_back(value);
  };
  add("--name", options.name);
  add("--rank", std::to_string(options.rank));
  add("--tp", std::to_string(options.tp));
  add("--role", options.role);
  add("--model", options.model.model);
  for (const std::string& flag : ModelFlagsOf(options.model)) args.push_back(flag);
  add("--kv-blocks", std::to_string(options.kv_blocks));
  add("--max-positions", std::to_string(options.max_positions));
  add("--kv-devices", options.kv_devices);
  add("--comm-fd", std::to_string(options.comm_fd));
  add("--parent-pid", std::to_string(options.parent_pid));
  return args;
}

}  // namespace headway
