#include "runtime/cluster/grpc_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "proto/google/rpc/status.pb.h"

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
  google::rpc::Status details;
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& payload) {
    google::protobuf::Any& detail = *details.add_details();
    detail.set_type_url(std::string(type_url));
    detail.set_value(std::string(payload));
  });
  // The two enumerations have the same values.
  const auto code = static_cast<grpc::StatusCode>(status.code());
  if (details.details().empty()) return grpc::Status(code, text);
  // Clients check that these agree with the status itself.
  details.set_code(code);
  details.set_message(text);
  return grpc::Status(code, text, details.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status details;
  if (!status.error_details().empty() && details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : details.details()) {
      result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  return result;
}

}  // namespace headway
