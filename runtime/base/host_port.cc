#include "runtime/base/host_port.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "runtime/base/utf8.h"

namespace headway {

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  const auto error = [text](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " ", what, "; expected HOST:PORT, e.g. 127.0.0.1:7000"));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return error("has no port");
  const std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.empty()) return error("has no host");
  const bool in_brackets = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (host.find_first_of("/@ \t\n") != std::string_view::npos) return error("is no HOST:PORT");
  if (host.find(':') != std::string_view::npos && !in_brackets) {
    return error("has more than one colon (an IPv6 address stands in brackets)");
  }
  HostPort out{.host = std::string(host), .port = 0};
  const auto [end, failure] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (failure != std::errc() || end != port.data() + port.size() || out.port < 0 ||
      out.port > 65535) {
    return error("has no port from 0 to 65535");
  }
  return out;
}

}  // namespace headway
