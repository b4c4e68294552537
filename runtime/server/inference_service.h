#ifndef HEADWAY_RUNTIME_SERVER_INFERENCE_SERVICE_H_
#define HEADWAY_RUNTIME_SERVER_INFERENCE_SERVICE_H_

#include <memory>

#include "runtime/router/router.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace headway {

struct InferenceServiceOptions {
  // Requests that run at the same time, each on a thread of its own; more are RESOURCE_EXHAUSTED.
  int max_requests = 1024;
  // Of a call that brings no deadline.
  double default_deadline_seconds = 3600;
};

// headway.v1.Inference over a router: translates and calls. One write of a stream is in flight, and
// while it is no more is taken from the node than the next message. A client that leaves ends what
// was done for it.
//
// `router` outlives the service, and the service the server that it is registered with.
std::unique_ptr<grpc::Service> NewInferenceService(Router& router,
                                                   const InferenceServiceOptions& options);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_SERVER_INFERENCE_SERVICE_H_
