#ifndef HEADWAY_RUNTIME_MAIN_ROUTER_OPTIONS_H_
#define HEADWAY_RUNTIME_MAIN_ROUTER_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace headway {

// `headway router`: the public port in front of nodes.
struct RouterMainOptions {
  std::string listen = "127.0.0.1:0";               // port 0: any
  std::vector<std::string> prefill, decode, mixed;  // HOST:PORT of each node
  std::string model;                                // whose tokenizer and chat template are used
  int ready_fd = -1;  // written to once it serves (runtime/cluster/ready_line.h)
};

// Serves until SIGTERM or SIGINT, then lets running requests end. Errors name the flag, the file or
// the node at fault.
absl::Status RunRouter(const RouterMainOptions& options);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_ROUTER_OPTIONS_H_
