#include "runtime/server/inference_service.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "grpc/grpc.h"
#include "grpcpp/support/server_callback.h"
#include "proto/headway/v1/inference.grpc.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/call_scope.h"
#include "runtime/cluster/grpc_status.h"
#include "runtime/server/inference_translation.h"
#include "runtime/server/request_threads.h"

namespace headway {
namespace {

// How often a stream that its client does not take looks at the clock.
constexpr std::chrono::milliseconds kStallPoll(100);

// One Generate call: gRPC's side on its threads, the router's on a request thread.
class GenerateCall : public grpc::ServerWriteReactor<v1::GenerateResponse>, public DeltaSink {
 public:
  // `context` and `request` live until the call is done.
  GenerateCall(grpc::CallbackServerContext& context, const v1::GenerateRequest& request,
               CallScope::TimePoint deadline, double stall_seconds, const Clock& clock)
      : context_(context),
        request_(request),
        scope_(deadline),
        stall_seconds_(stall_seconds),
        clock_(clock) {}

  // On a request thread. This object may be gone when it returns.
  void Run(Router& router) {
    absl::Status status = Answer(router);
    const absl::Status taken = WaitForRoom();
    if (status.ok()) status = taken;
    // Where the client took nothing the call is cancelled by now, which ends what is in flight.
    WaitForWrite();
    Finish(ToGrpc(status));
  }

  absl::Status Begin(const GenerateStart& start) override {
    v1::GenerateResponse first;
    ToProto(start, *first.mutable_start());
    return SendWhenThereIsRoom(std::move(first));
  }
  absl::Status Write(GenerateDelta delta) override {
    v1::GenerateResponse next;
    ToProto(delta, request_.options().has_logprobs(), next);
    return SendWhenThereIsRoom(std::move(next));
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
  absl::Status Answer(Router& router) {
    HEADWAY_ASSIGN_OR_RETURN(const GenerateInput input, FromProto(request_));
    HEADWAY_ASSIGN_OR_RETURN(const GenerateOutcome outcome, router.Generate(scope_, input, *this));
    HEADWAY_RETURN_IF_ERROR(WaitForRoom());
    v1::GenerateResponse last;
    ToProto(outcome, *last.mutable_summary());
    Send(std::move(last));
    return absl::OkStatus();
  }

  absl::Status SendWhenThereIsRoom(v1::GenerateResponse response) {
    HEADWAY_RETURN_IF_ERROR(WaitForRoom());
    HEADWAY_RETURN_IF_ERROR(scope_.Check());
    Send(std::move(response));
    return absl::OkStatus();
  }

  // There must be room.
  void Send(v1::GenerateResponse response) {
    response_ = std::move(response);
    {
      std::lock_guard lock(mutex_);
      writing_ = true;
      write_nanos_ = clock_.NowNanos();
    }
    StartWrite(&response_);
  }

  // Waits until the client has taken the message in flight, but not beyond the limits of the call.
  // After an error the call is cancelled, and its status is that error.
  absl::Status WaitForRoom() {
    std::unique_lock lock(mutex_);
    while (!room_.wait_for(lock, kStallPoll, [&] { return !writing_; })) {
      absl::Status status = scope_.Check();
      if (status.ok() && clock_.NowNanos() - write_nanos_ >= stall_seconds_ * 1e9) {
        status = absl::DeadlineExceededError(absl::StrCat(
            "generate: the client took nothing for ", stall_seconds_, " s, the limit of a stream"));
      }
      if (status.ok()) continue;
      // A status that waited behind the message would never leave.
      grpc_call_cancel_with_status(context_.c_call(), static_cast<grpc_status_code>(status.code()),
                                   std::string(status.message()).c_str(), nullptr);
      return status;
    }
    return absl::OkStatus();
  }

  void WaitForWrite() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return !writing_; });
  }

  grpc::CallbackServerContext& context_;
  const v1::GenerateRequest& request_;
  CallScope scope_;
  const double stall_seconds_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable room_;
  bool writing_ = false;           // guarded by mutex_
  int64_t write_nanos_ = 0;        // guarded by mutex_; when the write in flight began
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
  InferenceService(Router& router, const InferenceServiceOptions& options, const Clock& clock)
      : router_(router),
        options_(options),
        clock_(clock),
        threads_(options.max_requests, options.idle_thread_seconds) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override {
    auto* call =
        new GenerateCall(*context, *request, Deadline(*context), options_.stall_seconds, clock_);
    const absl::Status started = threads_.Start([this, call] { call->Run(router_); });
    if (!started.ok()) call->Finish(ToGrpc(started));
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
    const absl::Status started = threads_.Start([call] { call->Run(); });
    if (!started.ok()) call->Finish(ToGrpc(started));
    return call;
  }

  CallScope::TimePoint Deadline(const grpc::CallbackServerContext& context) const {
    const CallScope::TimePoint deadline = context.deadline();
    return deadline == CallScope::TimePoint::max()
               ? CallScope::DeadlineAfter(options_.default_deadline_seconds)
               : deadline;
  }

  Router& router_;
  const InferenceServiceOptions options_;
  const Clock& clock_;
  RequestThreads threads_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewInferenceService(Router& router,
                                                   const InferenceServiceOptions& options,
                                                   const Clock& clock) {
  return std::make_unique<InferenceService>(router, options, clock);
}

}  // namespace headway
