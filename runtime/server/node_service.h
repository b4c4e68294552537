#ifndef HEADWAY_RUNTIME_SERVER_NODE_SERVICE_H_
#define HEADWAY_RUNTIME_SERVER_NODE_SERVICE_H_

#include <memory>
#include <string>

#include "grpcpp/impl/codegen/service_type.h"
#include "runtime/node/node_loop.h"

namespace headway {

// headway.v1.Node over a node loop: translates and calls. Streams hold at most one write in flight;
// what the client has not taken yet waits, bounded by the sequence's own length. Ending a call
// cancels its sequence.
//
// The loop must outlive the server that the service is registered with. Register it before the
// server starts.
std::unique_ptr<grpc::Service> NewNodeService(NodeLoop& loop, const std::string& model_name);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_SERVER_NODE_SERVICE_H_
