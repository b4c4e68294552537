#include "runtime/cluster/node_client.h"

#include <optional>
#include <utility>

#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "proto/headway/v1/node.grpc.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/channel.h"
#include "runtime/cluster/error_details.h"
#include "runtime/cluster/grpc_status.h"

namespace headway {
namespace {

// How a call of this scope ended. A node that shuts down cancels its calls, and so may a proxy
// between: to whoever called, unless that was who cancelled, the node is gone.
absl::Status EndOfCall(const grpc::Status& status, const CallScope& scope,
                       const std::string& where) {
  absl::Status error = FromGrpc(status);
  if (absl::IsCancelled(error) && !scope.cancelled()) {
    error = absl::UnavailableError(absl::StrCat("the node ended the call: ", error.message()));
  }
  return absl::IsUnavailable(error) ? AnnotateKeepingDetails(error, where) : error;
}

class GrpcTokenStream : public TokenStream {
 public:
  using Reader = std::unique_ptr<grpc::ClientReader<v1::TokenBatch>>;

  // `start` makes the call with the context that it is given; `where` names it in errors.
  GrpcTokenStream(CallScope& scope, std::string where,
                  const std::function<Reader(grpc::ClientContext*)>& start)
      : scope_(scope),
        where_(std::move(where)),
        membership_(scope, context_),
        reader_(start(&context_)) {}

  ~GrpcTokenStream() override {
    if (status_) return;
    context_.TryCancel();
    reader_->Finish();
  }

  absl::StatusOr<bool> Read(v1::TokenBatch& batch) override {
    if (!status_) {
      if (reader_->Read(&batch)) return true;
      status_ = EndOfCall(reader_->Finish(), scope_, where_);
    }
    HEADWAY_RETURN_IF_ERROR(*status_);
    return false;
  }

 private:
  const CallScope& scope_;
  const std::string where_;
  grpc::ClientContext context_;
  CallScope::Call membership_;
  Reader reader_;
  std::optional<absl::Status> status_;  // set when the call has ended
};

class GrpcNodeClient : public NodeClient {
 public:
  explicit GrpcNodeClient(const std::string& address)
      : address_(address), stub_(v1::Node::NewStub(OpenChannel(address))) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<v1::Reservation> Reserve(CallScope& scope,
                                          const v1::ReserveRequest& request) override {
    return Unary<v1::Reservation>(scope, "Reserve", &v1::Node::Stub::Reserve, request);
  }

  absl::Status Release(CallScope& scope, const v1::ReleaseRequest& request) override {
    return Unary<v1::ReleaseReply>(scope, "Release", &v1::Node::Stub::Release, request).status();
  }

  absl::StatusOr<v1::ScoreTokensReply> ScoreTokens(CallScope& scope,
                                                   const v1::ScoreTokensRequest& request) override {
    return Unary<v1::ScoreTokensReply>(scope, "ScoreTokens", &v1::Node::Stub::ScoreTokens, request);
  }

  absl::StatusOr<v1::NodeLoad> GetLoad(CallScope& scope) override {
    return Unary<v1::NodeLoad>(scope, "GetLoad", &v1::Node::Stub::GetLoad, v1::NodeLoadRequest());
  }

  std::unique_ptr<TokenStream> Decode(CallScope& scope, const v1::DecodeRequest& request) override {
    return std::make_unique<GrpcTokenStream>(
        scope, Where("Decode"),
        [&](grpc::ClientContext* context) { return stub_->Decode(context, request); });
  }

  std::unique_ptr<TokenStream> Generate(CallScope& scope,
                                        const v1::NodeGenerateRequest& request) override {
    return std::make_unique<GrpcTokenStream>(
        scope, Where("Generate"),
        [&](grpc::ClientContext* context) { return stub_->Generate(context, request); });
  }

  void GetInfoAsync(CallScope& scope,
                    std::function<void(absl::StatusOr<v1::NodeInfo>)> done) override {
    auto* call = NewCall<v1::NodeInfoRequest>(scope, "GetInfo", {}, std::move(done));
    stub_->async()->GetInfo(&call->context, &call->request, &call->reply,
                            [call](grpc::Status status) { End(call, status); });
  }

  void GetLoadAsync(CallScope& scope,
                    std::function<void(absl::StatusOr<v1::NodeLoad>)> done) override {
    auto* call = NewCall<v1::NodeLoadRequest>(scope, "GetLoad", {}, std::move(done));
    stub_->async()->GetLoad(&call->context, &call->request, &call->reply,
                            [call](grpc::Status status) { End(call, status); });
  }

  void PrefillAsync(CallScope& scope, const v1::PrefillRequest& request,
                    std::function<void(absl::StatusOr<v1::PrefillReply>)> done) override {
    auto* call = NewCall(scope, "Prefill", request, std::move(done));
    stub_->async()->Prefill(&call->context, &call->request, &call->reply,
                            [call](grpc::Status status) { End(call, status); });
  }

  void RenewAsync(CallScope& scope, const v1::RenewRequest& request,
                  std::function<void(absl::StatusOr<v1::RenewReply>)> done) override {
    auto* call = NewCall(scope, "Renew", request, std::move(done));
    stub_->async()->Renew(&call->context, &call->request, &call->reply,
                          [call](grpc::Status status) { End(call, status); });
  }

 private:
  // What a call in flight needs until it ends.
  template <typename Request, typename Reply>
  struct AsyncCall {
    AsyncCall(CallScope& scope, std::string where, const Request& request,
              std::function<void(absl::StatusOr<Reply>)> done)
        : scope(scope),
          membership(std::in_place, scope, context),
          where(std::move(where)),
          done(std::move(done)),
          request(request) {}

    const CallScope& scope;
    grpc::ClientContext context;
    std::optional<CallScope::Call> membership;
    const std::string where;
    std::function<void(absl::StatusOr<Reply>)> done;
    const Request request;
    Reply reply;
  };

  template <typename Request, typename Reply>
  AsyncCall<Request, Reply>* NewCall(CallScope& scope, const char* name, const Request& request,
                                     std::function<void(absl::StatusOr<Reply>)> done) const {
    return new AsyncCall<Request, Reply>(scope, Where(name), request, std::move(done));
  }

  template <typename Request, typename Reply>
  static void End(AsyncCall<Request, Reply>* call, const grpc::Status& status) {
    std::unique_ptr<AsyncCall<Request, Reply>> owner(call);
    absl::StatusOr<Reply> result = Result(status, call->scope, call->where, std::move(call->reply));
    const auto done = std::move(call->done);
    // Before `done`, which may be the last thing that keeps the scope, and from which on the client
    // may go: a call that outlives its channel has gRPC 1.51 free a completion queue twice.
    owner.reset();
    done(std::move(result));
  }

  std::string Where(const char* call) const { return absl::StrCat("node ", address_, ": ", call); }

  template <typename Reply>
  static absl::StatusOr<Reply> Result(const grpc::Status& status, const CallScope& scope,
                                      const std::string& where, Reply reply) {
    if (status.ok()) return reply;
    return EndOfCall(status, scope, where);
  }

  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Unary(CallScope& scope, const char* name,
                              grpc::Status (v1::Node::Stub::*method)(grpc::ClientContext*,
                                                                     const Request&, Reply*),
                              const Request& request) {
    grpc::ClientContext context;
    CallScope::Call membership(scope, context);
    Reply reply;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &reply);
    return Result(status, scope, Where(name), std::move(reply));
  }

  const std::string address_;
  const std::unique_ptr<v1::Node::Stub> stub_;
};

}  // namespace

std::unique_ptr<NodeClient> NodeClient::Connect(const std::string& address) {
  return std::make_unique<GrpcNodeClient>(address);
}

}  // namespace headway
