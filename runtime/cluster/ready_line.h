#ifndef HEADWAY_RUNTIME_CLUSTER_READY_LINE_H_
#define HEADWAY_RUNTIME_CLUSTER_READY_LINE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace headway {

// What a child process tells the one that started it once it serves: one line of JSON,
// {"address": "127.0.0.1:4711"}, on the descriptor that --ready-fd names.

// Writes the line and closes `fd`. Does nothing when `fd` is negative. `address` may be empty for a
// process that listens nowhere.
absl::Status WriteReadyLine(int fd, std::string_view address);

// The address of a line without its line feed. InvalidArgument with the line when it is not one.
absl::StatusOr<std::string> ParseReadyLine(std::string_view line);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_READY_LINE_H_
