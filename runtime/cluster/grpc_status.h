#ifndef HEADWAY_RUNTIME_CLUSTER_GRPC_STATUS_H_
#define HEADWAY_RUNTIME_CLUSTER_GRPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace headway {

// The same code and the same text, on either side of the wire. A text of more than 2,000 bytes is
// cut (and says so): it travels in a header whose size the other side limits.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_GRPC_STATUS_H_
