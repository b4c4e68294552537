#include "runtime/server/inference_service.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "grpcpp/support/server_callback.h"
#include "proto/headway/v1/inference.grpc.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/call_scope.h"
#include "runtime/cluster/grpc_status.h"
#include "runtime/server/inference_translation.h"
#include "runtime/server/request_threads.h"

namespace headway {
namespace {

// One Generate call: gRPC's side on its threads, the router's on a request thread.
class GenerateCall : public grpc::ServerWriteReactor<v1::GenerateResponse>, public DeltaSink {
 public:
  // `request` lives until the call is done.
  GenerateCall(const v1::GenerateRequest& request, CallScope::TimePoint deadline)
      : request_(request), scope_(deadline) {}

  // On a request thread. This object may be gone when it returns.
  void Run(Router& router) {
    absl::StatusOr<GenerateOutcome> outcome = Answer(router);
    WaitForRoom();
    if (!outcome.ok()) {
      Finish(ToGrpc(outcome.status()));
      return;
    }
    response_.Clear();
    ToProto(*outcome, *response_.mutable_summary());
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }

  absl::Status Write(GenerateDelta delta) override {
    v1::GenerateResponse next;
    ToProto(delta, request_.options().has_logprobs(), next);
    WaitForRoom();
    HEADWAY_RETURN_IF_ERROR(scope_.Check());
    response_ = std::move(next);
    {
      std::lock_guard lock(mutex_);
      writing_ = true;
    }
    StartWrite(&response_);
    return absl::OkStatus();
  }

  void OnWriteDone(bool) override {
    std::lock_guard lock(mutex_);
    writing_ = false;
    room_.notify_one();
  }
  // The client left, or the deadline passed. A write in flight then ends too.
  void OnCancel() override { scope_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  absl::StatusOr<GenerateOutcome> Answer(Router& router) {
    HEADWAY_ASSIGN_OR_RETURN(const GenerateInput input, FromProto(request_));
    return router.Generate(scope_, input, *this);
  }

  void WaitForRoom() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return !writing_; });
  }

  const v1::GenerateRequest& request_;
  CallScope scope_;
  std::mutex mutex_;
  std::condition_variable room_;
  bool writing_ = false;           // guarded by mutex_
  v1::GenerateResponse response_;  // of the write in flight
};

// A unary call, answered on a request thread.
class UnaryCall : public grpc::ServerUnaryReactor {
 public:
  using Handler = std::function<absl::Status(CallScope&)>;
  UnaryCall(CallScope::TimePoint deadline, Handler handler)
      : scope_(deadline), handler_(std::move(handler)) {}

  // This object may be gone when it returns.
  void Run() { Finish(ToGrpc(handler_(scope_))); }

  void OnCancel() override { scope_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  CallScope scope_;
  const Handler handler_;
};

class InferenceService final : public v1::Inference::CallbackService {
 public:
  InferenceService(Router& router, const InferenceServiceOptions& options)
      : router_(router), options_(options), threads_(options.max_requests) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override {
    auto* call = new GenerateCall(*request, Deadline(*context));
    if (!threads_.TryStart([this, call] { call->Run(router_); })) call->Finish(TooMany());
    return call;
  }

  grpc::ServerUnaryReactor* Score(grpc::CallbackServerContext* context,
                                  const v1::ScoreRequest* request,
                                  v1::ScoreResponse* response) override {
    return Start(*context, [this, request, response](CallScope& scope) -> absl::Status {
      HEADWAY_ASSIGN_OR_RETURN(const ScoreInput input, FromProto(*request));
      HEADWAY_ASSIGN_OR_RETURN(ScoreOutcome outcome, router_.Score(scope, input));
      ToProto(outcome, *response);
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override {
    return Start(*context, [this, request, response](CallScope&) -> absl::Status {
      HEADWAY_ASSIGN_OR_RETURN(const Prompt prompt, FromProto(request->prompt()));
      HEADWAY_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, router_.Tokenize(prompt));
      response->mutable_token_ids()->Assign(ids.begin(), ids.end());
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override {
    return Start(*context, [this, request, response](CallScope&) -> absl::Status {
      const std::vector<int32_t> ids(request->token_ids().begin(), request->token_ids().end());
      HEADWAY_ASSIGN_OR_RETURN(*response->mutable_text(),
                               router_.Detokenize(ids, request->include_control_tokens()));
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest*, v1::Model* response) override {
    return Start(*context, [this, response](CallScope&) -> absl::Status {
      HEADWAY_ASSIGN_OR_RETURN(const ServedModel model, router_.GetModel());
      ToProto(model, *response);
      return absl::OkStatus();
    });
  }

 private:
  grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext& context,
                                  UnaryCall::Handler handler) {
    auto* call = new UnaryCall(Deadline(context), std::move(handler));
    if (!threads_.TryStart([call] { call->Run(); })) call->Finish(TooMany());
    return call;
  }

  CallScope::TimePoint Deadline(const grpc::CallbackServerContext& context) const {
    const CallScope::TimePoint deadline = context.deadline();
    return deadline == CallScope::TimePoint::max()
               ? CallScope::DeadlineAfter(options_.default_deadline_seconds)
               : deadline;
  }

  grpc::Status TooMany() const {
    return ToGrpc(absl::ResourceExhaustedError(
        absl::StrCat("the router runs ", threads_.limit(),
                     " requests, its limit (max_requests); retry in a second")));
  }

  Router& router_;
  const InferenceServiceOptions options_;
  RequestThreads threads_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewInferenceService(Router& router,
                                                   const InferenceServiceOptions& options) {
  return std::make_unique<InferenceService>(router, options);
}

}  // namespace headway
