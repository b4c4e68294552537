#ifndef HEADWAY_RUNTIME_CLUSTER_GRPC_STATUS_H_
#define HEADWAY_RUNTIME_CLUSTER_GRPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace headway {

// The same code, text and payloads, on either side of the wire. A text of more than 2,000 bytes is
// cut (and says so): it travels in a header whose size the other side limits. Payloads travel as
// the details of a google.rpc.Status, as is usual for gRPC; details that cannot be read are left
// out.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_GRPC_STATUS_H_
