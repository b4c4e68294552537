#include "runtime/cluster/ready_line.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"

namespace headway {

absl::Status WriteReadyLine(int fd, std::string_view address) {
  if (fd < 0) return absl::OkStatus();
  const std::string line = nlohmann::json{{"address", address}}.dump() + "\n";
  std::string_view rest = line;
  absl::Status status;
  while (!rest.empty()) {
    const ssize_t written = write(fd, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      status = absl::UnavailableError(
          absl::StrCat("ready line: descriptor ", fd, ": ", std::strerror(errno)));
      break;
    }
  }
  close(fd);
  return status;
}

absl::StatusOr<std::string> ParseReadyLine(std::string_view line) {
  const nlohmann::json json =
      nlohmann::json::parse(line, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("address") || !json["address"].is_string()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ready line: wanted {\"address\": \"HOST:PORT\"}, got \"", ToAbsl(line), "\""));
  }
  return json["address"].get<std::string>();
}

}  // namespace headway
