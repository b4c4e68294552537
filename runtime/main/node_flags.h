#ifndef HEADWAY_RUNTIME_MAIN_NODE_FLAGS_H_
#define HEADWAY_RUNTIME_MAIN_NODE_FLAGS_H_

#include <string>
#include <vector>

#include "runtime/main/flags.h"
#include "runtime/main/node_options.h"

namespace headway {

// Of --tp. A checkpoint's own limit, its reduction groups, is told when it is loaded.
inline constexpr int kMaxDegree = 1000;
inline constexpr int kMaxFd = 1 << 20;

// Adds --role.
void AddRoleFlag(Flags& flags, std::string* role);

// Adds --kv-blocks, --kv-memory and --max-positions.
void AddKvDevicesFlag(Flags& flags, std::string default_text, std::string* devices);
void AddKvFlags(Flags& flags, NodeMainOptions* options);

// The flags among those that make another process parse the same options.
std::vector<std::string> KvFlagsOf(const NodeMainOptions& options);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_NODE_FLAGS_H_
