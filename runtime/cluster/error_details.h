#ifndef HEADWAY_RUNTIME_CLUSTER_ERROR_DETAILS_H_
#define HEADWAY_RUNTIME_CLUSTER_ERROR_DETAILS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace headway {

// What a status tells a program beside its code and its text. Kept as the status's payloads, which
// grpc_status.h takes over the wire as the call's error details. Of an OK status there is nothing
// to tell: the functions below leave it as it is.

// Who is at fault where it need not be the node that answered. As headway.v1.NodeFailure.
enum class FailureCause {
  kNode,               // the node itself, as far as is known
  kTargetUnreachable,  // it, or the node that its KV did not get through to
  kReservationLost,    // nobody: the reservation is not known (any more); reserve again
};
absl::Status WithCause(absl::Status status, FailureCause cause);
FailureCause CauseOf(const absl::Status& status);

// As Annotate, and keeps the details: puts `context` and ": " before the message.
absl::Status AnnotateKeepingDetails(const absl::Status& status, const std::string& context);

// When the same call may be made again, as google.rpc.RetryInfo.
absl::Status WithRetryDelay(absl::Status status, double seconds);
// Unset where the status says nothing of it.
std::optional<double> RetryDelaySeconds(const absl::Status& status);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_ERROR_DETAILS_H_
