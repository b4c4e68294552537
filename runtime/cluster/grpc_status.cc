#include "runtime/cluster/grpc_status.h"

#include <string>

namespace headway {
namespace {

constexpr size_t kMaxTextBytes = 2000;

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string text(status.message());
  if (text.size() > kMaxTextBytes) {
    size_t end = kMaxTextBytes;
    // Not in the middle of a character.
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end) + "... (cut)";
  }
  // The two enumerations have the same values.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), text);
}

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace headway
