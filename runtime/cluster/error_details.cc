#include "runtime/cluster/error_details.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "proto/google/rpc/error_details.pb.h"
#include "proto/headway/v1/node.pb.h"
#include "runtime/base/status.h"

namespace headway {
namespace {

template <typename Message>
std::string TypeUrl() {
  return absl::StrCat("type.googleapis.com/", Message::descriptor()->full_name());
}

template <typename Message>
absl::Status With(absl::Status status, const Message& detail) {
  // Absl ignores this for OK.
  status.SetPayload(TypeUrl<Message>(), absl::Cord(detail.SerializeAsString()));
  return status;
}

template <typename Message>
std::optional<Message> Find(const absl::Status& status) {
  const auto payload = status.GetPayload(TypeUrl<Message>());
  Message detail;
  if (!payload || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

}  // namespace

absl::Status WithCause(absl::Status status, FailureCause cause) {
  v1::NodeFailure failure;
  switch (cause) {
    case FailureCause::kNode:
      return status;
    case FailureCause::kTargetUnreachable:
      failure.set_cause(v1::NodeFailure::CAUSE_TARGET_UNREACHABLE);
      break;
    case FailureCause::kReservationLost:
      failure.set_cause(v1::NodeFailure::CAUSE_RESERVATION_LOST);
      break;
  }
  return With(std::move(status), failure);
}

FailureCause CauseOf(const absl::Status& status) {
  const auto failure = Find<v1::NodeFailure>(status);
  if (!failure) return FailureCause::kNode;
  switch (failure->cause()) {
    case v1::NodeFailure::CAUSE_TARGET_UNREACHABLE:
      return FailureCause::kTargetUnreachable;
    case v1::NodeFailure::CAUSE_RESERVATION_LOST:
      return FailureCause::kReservationLost;
    default:  // also one that only a newer node knows
      return FailureCause::kNode;
  }
}

absl::Status AnnotateKeepingDetails(const absl::Status& status, const std::string& context) {
  absl::Status annotated = Annotate(status, context);
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& payload) {
    annotated.SetPayload(type_url, payload);
  });
  return annotated;
}

absl::Status WithRetryDelay(absl::Status status, double seconds) {
  google::rpc::RetryInfo info;
  const double whole = std::floor(seconds);
  info.mutable_retry_delay()->set_seconds(static_cast<int64_t>(whole));
  info.mutable_retry_delay()->set_nanos(static_cast<int32_t>((seconds - whole) * 1e9));
  return With(std::move(status), info);
}

std::optional<double> RetryDelaySeconds(const absl::Status& status) {
  const auto info = Find<google::rpc::RetryInfo>(status);
  if (!info) return std::nullopt;
  return static_cast<double>(info->retry_delay().seconds()) + info->retry_delay().nanos() * 1e-9;
}

}  // namespace headway
