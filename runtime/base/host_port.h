#ifndef HEADWAY_RUNTIME_BASE_HOST_PORT_H_
#define HEADWAY_RUNTIME_BASE_HOST_PORT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace headway {

// A place on the network as flags and messages write it: "127.0.0.1:7000", "node-3:0",
// "[::1]:7000".
struct HostPort {
  std::string host;  // as written, with the brackets of an IPv6 address; not empty
  int port = 0;      // 0 to 65535
};

// InvalidArgument quotes `text` and says what is missing. Looks nothing up.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_BASE_HOST_PORT_H_
