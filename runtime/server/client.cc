#include "runtime/server/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/headway/v1/inference.grpc.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/channel.h"
#include "runtime/cluster/error_details.h"
#include "runtime/cluster/grpc_status.h"

namespace headway {
namespace {

namespace health = grpc::health::v1;

// Waits until the server behind `channel` says that it serves. A connection that is refused ends
// that at once.
absl::Status WaitUntilServing(CallScope& scope, const std::shared_ptr<grpc::Channel>& channel,
                              const std::string& address, double timeout_seconds) {
  const auto stub = health::Health::NewStub(channel);
  grpc::ClientContext context;
  const CallScope::Call membership(scope, context);
  context.set_deadline(std::min(scope.deadline(), CallScope::DeadlineAfter(timeout_seconds)));
  health::HealthCheckRequest request;
  request.set_service(v1::Inference::service_full_name());
  const auto reader = stub->Watch(&context, request);
  health::HealthCheckResponse response;
  bool serves = false;
  bool known = true;
  while (!serves && reader->Read(&response)) {
    serves = response.status() == health::HealthCheckResponse::SERVING;
    known = response.status() != health::HealthCheckResponse::SERVICE_UNKNOWN;
    if (!known) break;
  }
  if (serves || !known) context.TryCancel();
  const absl::Status status = FromGrpc(reader->Finish());
  if (serves) return absl::OkStatus();
  if (scope.cancelled()) return scope.Check();
  if (!known) {
    return absl::UnavailableError(absl::StrCat("connect to ", address,
                                               ": who answers there is not a router (it has no ",
                                               v1::Inference::service_full_name(), ")"));
  }
  if (!absl::IsDeadlineExceeded(status)) {
    return absl::UnavailableError(absl::StrCat("connect to ", address, ": ",
                                               std::string(status.message()),
                                               "; is a router running there?"));
  }
  if (channel->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY) {
    return absl::UnavailableError(absl::StrCat("connect to ", address, ": nobody answered within ",
                                               timeout_seconds, " s; is a router running there?"));
  }
  return absl::UnavailableError(absl::StrCat("connect to ", address,
                                             ": the router does not serve after ", timeout_seconds,
                                             " s; it misses a node for some role"));
}

class GrpcClient : public Client {
 public:
  GrpcClient(const std::string& address, const std::shared_ptr<grpc::Channel>& channel)
      : address_(address), stub_(v1::Inference::NewStub(channel)) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<v1::GenerateSummary> Generate(CallScope& scope, const v1::GenerateRequest& request,
                                               const OnResponse& on_response) override {
    grpc::ClientContext context;
    CallScope::Call membership(scope, context);
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse response;
    v1::GenerateSummary summary;
    bool complete = false;
    bool left = false;
    while (reader->Read(&response)) {
      if (response.has_summary()) {
        summary = response.summary();
        complete = true;
      }
      if (!on_response(response)) {
        context.TryCancel();
        left = true;
        break;
      }
    }
    const grpc::Status status = reader->Finish();
    if (left) return absl::CancelledError("generate: ended by the caller");
    HEADWAY_RETURN_IF_ERROR(Error(status, scope));
    if (!complete) return absl::InternalError("generate: the stream ended without a summary");
    return summary;
  }

  absl::StatusOr<v1::ScoreResponse> Score(CallScope& scope,
                                          const v1::ScoreRequest& request) override {
    return Unary<v1::ScoreResponse>(scope, &v1::Inference::Stub::Score, request);
  }

  absl::StatusOr<v1::TokenizeResponse> Tokenize(CallScope& scope,
                                                const v1::TokenizeRequest& request) override {
    return Unary<v1::TokenizeResponse>(scope, &v1::Inference::Stub::Tokenize, request);
  }

  absl::StatusOr<v1::DetokenizeResponse> Detokenize(CallScope& scope,
                                                    const v1::DetokenizeRequest& request) override {
    return Unary<v1::DetokenizeResponse>(scope, &v1::Inference::Stub::Detokenize, request);
  }

  absl::StatusOr<v1::Model> GetModel(CallScope& scope) override {
    return Unary<v1::Model>(scope, &v1::Inference::Stub::GetModel, v1::GetModelRequest());
  }

 private:
  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Unary(CallScope& scope,
                              grpc::Status (v1::Inference::Stub::*method)(grpc::ClientContext*,
                                                                          const Request&, Reply*),
                              const Request& request) {
    grpc::ClientContext context;
    CallScope::Call membership(scope, context);
    Reply reply;
    HEADWAY_RETURN_IF_ERROR(Error((stub_.get()->*method)(&context, request, &reply), scope));
    return reply;
  }

  absl::Status Error(const grpc::Status& status, const CallScope& scope) const {
    absl::Status error = FromGrpc(status);
    // So gRPC tells of a call that came in while the server shut down.
    if (absl::IsCancelled(error) && !scope.cancelled()) {
      error = absl::UnavailableError("ended the call; it is stopping");
    }
    return absl::IsUnavailable(error)
               ? AnnotateKeepingDetails(error, absl::StrCat("router ", address_))
               : error;
  }

  const std::string address_;
  const std::unique_ptr<v1::Inference::Stub> stub_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(CallScope& scope,
                                                        const std::string& address,
                                                        double timeout_seconds) {
  const std::shared_ptr<grpc::Channel> channel = OpenChannel(address);
  HEADWAY_RETURN_IF_ERROR(WaitUntilServing(scope, channel, address, timeout_seconds));
  return std::make_unique<GrpcClient>(address, channel);
}

}  // namespace headway
