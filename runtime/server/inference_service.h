#ifndef HEADWAY_RUNTIME_SERVER_INFERENCE_SERVICE_H_
#define HEADWAY_RUNTIME_SERVER_INFERENCE_SERVICE_H_

#include <memory>

#include "runtime/base/clock.h"
#include "runtime/router/router.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace headway {

struct InferenceServiceOptions {
  // Requests that run at the same time, each on a thread of its own; more are RESOURCE_EXHAUSTED.
  int max_requests = 1024;
  // How long a request's thread waits for another request before it ends.
  double idle_thread_seconds = 10;
  // Of a call that brings no deadline.
  double default_deadline_seconds = 3600;
  // How long a client may leave one message of its stream untaken. The stream then ends with
  // DEADLINE_EXCEEDED, and what it held is free.
  double stall_seconds = 60;
};

// headway.v1.Inference over a router: translates and calls. One write of a stream is in flight, and
// while it is no more is taken from the node than the next message. A client that leaves, or that
// takes nothing for too long, ends what was done for it.
//
// `router` and `clock` (which only stalls are measured with) outlive the service, and the service
// the server that it is registered with.
std::unique_ptr<grpc::Service> NewInferenceService(Router& router,
                                                   const InferenceServiceOptions& options,
                                                   const Clock& clock);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_SERVER_INFERENCE_SERVICE_H_
