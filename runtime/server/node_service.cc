#include "runtime/server/node_service.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

#include "grpcpp/support/server_callback.h"
#include "proto/headway/v1/node.grpc.pb.h"
#include "runtime/cluster/grpc_status.h"
#include "runtime/kv/kv_storage.h"
#include "runtime/server/node_translation.h"

namespace headway {
namespace {

// Of both classes below: gRPC learns of an object when the method returns it, so neither OnCancel
// nor OnDone comes before the handle is set. Finish may be called earlier.

// A unary call that the node loop answers later, and that leaving cancels.
class PendingCall : public grpc::ServerUnaryReactor {
 public:
  explicit PendingCall(NodeLoop& loop) : loop_(loop) {}

  // The loop's handle. Before the method returns.
  void SetHandle(uint64_t handle) { handle_ = handle; }
  // Once, from the loop.
  void Answer(const absl::Status& status) { Finish(ToGrpc(status)); }

  void OnCancel() override { loop_.Cancel(handle_); }
  void OnDone() override { delete this; }

 private:
  NodeLoop& loop_;
  uint64_t handle_ = 0;  // 0: of nothing
};

// A stream of tokens fed by the node loop.
class TokenStream : public grpc::ServerWriteReactor<v1::TokenBatch>, public TokenSink {
 public:
  explicit TokenStream(NodeLoop& loop) : loop_(loop) {}

  // As PendingCall's.
  void SetHandle(uint64_t handle) { handle_ = handle; }

  void OnToken(TokenEvent event) override {
    std::unique_lock lock(mutex_);
    waiting_.push_back(std::move(event));
    Pump(lock);
  }
  void OnDone(const absl::Status& status) override {
    {
      std::unique_lock lock(mutex_);
      done_ = true;
      status_ = status;
      Pump(lock);
    }
    Unref();
  }

  void OnWriteDone(bool ok) override {
    std::unique_lock lock(mutex_);
    writing_ = false;
    if (!ok) waiting_.clear();
    Pump(lock);
  }
  void OnCancel() override { loop_.Cancel(handle_); }
  void OnDone() override { Unref(); }

 private:
  // Writes what waits, or finishes once nothing does. Releases the lock before it calls gRPC.
  void Pump(std::unique_lock<std::mutex>& lock) {
    if (writing_ || finished_) return;
    if (!waiting_.empty()) {
      batch_.Clear();
      for (; !waiting_.empty(); waiting_.pop_front())
        ToProto(waiting_.front(), *batch_.add_tokens());
      writing_ = true;
      lock.unlock();
      StartWrite(&batch_);
      return;
    }
    if (done_) {
      finished_ = true;
      const absl::Status status = status_;
      lock.unlock();
      Finish(ToGrpc(status));
    }
  }
  void Unref() {
    if (--references_ == 0) delete this;
  }

  NodeLoop& loop_;
  uint64_t handle_ = 0;  // 0: of nothing
  std::mutex mutex_;
  std::deque<TokenEvent> waiting_;
  v1::TokenBatch batch_;  // the write in flight
  bool writing_ = false, done_ = false, finished_ = false;
  absl::Status status_;
  // gRPC and the loop.
  std::atomic<int> references_{2};
};

class NodeService final : public v1::Node::CallbackService {
 public:
  NodeService(NodeLoop& loop, const std::string& model_name)
      : loop_(loop), model_name_(model_name) {}

  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const v1::NodeInfoRequest*, v1::NodeInfo* reply) override {
    const RankEngine& engine = loop_.engine();
    const ModelConfig& config = engine.config();
    reply->set_role(ToProto(loop_.options().role));
    reply->set_degree(engine.plan().degree);
    reply->set_numerics_id(engine.numerics_id());
    reply->set_model_name(model_name_);
    reply->set_vocabulary(config.vocabulary);
    reply->set_max_positions(engine.limits().max_positions);
    reply->set_kv_blocks(engine.kv().num_blocks());
    reply->set_kv_bytes_per_token(KvBytes(config.layers, engine.plan().stored_kv_heads(),
                                          config.head_dim, 1, engine.kv().layers()[0].dtype));
    reply->set_max_running(loop_.options().queue.max_running);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(loop_.health()));
    return reactor;
  }

  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* context,
                                    const v1::NodeLoadRequest*, v1::NodeLoad* reply) override {
    ToProto(loop_.load(), *reply);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(loop_.health()));
    return reactor;
  }

  grpc::ServerUnaryReactor* Reserve(grpc::CallbackServerContext*, const v1::ReserveRequest* request,
                                    v1::Reservation* reply) override {
    auto* call = new PendingCall(loop_);
    if (Refuse(request->numerics_id(), *call)) return call;
    call->SetHandle(loop_.Reserve({.request_id = request->request_id(),
                                   .prompt_tokens = request->prompt_tokens(),
                                   .max_tokens = request->max_tokens(),
                                   .lease_ms = request->lease_ms(),
                                   .reservation_id = request->reservation_id(),
                                   .done = [call, reply](absl::StatusOr<ReservationGrant> grant) {
                                     if (grant.ok()) ToProto(*grant, *reply);
                                     call->Answer(grant.status());
                                   }}));
    return call;
  }

  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* context,
                                  const v1::RenewRequest* request, v1::RenewReply* reply) override {
    auto* reactor = context->DefaultReactor();
    loop_.Renew({.reservation_id = request->reservation_id(),
                 .epoch = request->epoch(),
                 .lease_ms = request->lease_ms(),
                 .done = [reactor, reply](absl::StatusOr<int64_t> lease_ms) {
                   if (lease_ms.ok()) reply->set_lease_ms(static_cast<uint32_t>(*lease_ms));
                   reactor->Finish(ToGrpc(lease_ms.status()));
                 }});
    return reactor;
  }

  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request, v1::ReleaseReply*) override {
    loop_.Release(request->reservation_id(), request->epoch());
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerUnaryReactor* Prefill(grpc::CallbackServerContext*, const v1::PrefillRequest* request,
                                    v1::PrefillReply* reply) override {
    auto* call = new PendingCall(loop_);
    if (Refuse(request->numerics_id(), *call)) return call;
    call->SetHandle(loop_.Prefill({.request_id = request->request_id(),
                                   .prompt = {request->prompt().begin(), request->prompt().end()},
                                   .sampling = FromProto(request->sampling()),
                                   .trace = request->trace(),
                                   .target = FromProto(request->target()),
                                   .done = [call, reply](absl::StatusOr<PrefillResult> result) {
                                     if (result.ok()) ToProto(*result, *reply);
                                     call->Answer(result.status());
                                   }}));
    return call;
  }

  grpc::ServerWriteReactor<v1::TokenBatch>* Decode(grpc::CallbackServerContext*,
                                                   const v1::DecodeRequest* request) override {
    auto* stream = new TokenStream(loop_);
    if (!request->has_first()) {
      static_cast<TokenSink*>(stream)->OnDone(
          absl::InvalidArgumentError("decode: the first token is missing"));
      return stream;
    }
    stream->SetHandle(loop_.Decode({.request_id = request->request_id(),
                                    .prompt = {request->prompt().begin(), request->prompt().end()},
                                    .first_token = request->first().id(),
                                    .sampling = FromProto(request->sampling()),
                                    .trace = request->trace(),
                                    .manifest = FromProto(request->manifest()),
                                    .sink = stream}));
    return stream;
  }

  grpc::ServerWriteReactor<v1::TokenBatch>* Generate(
      grpc::CallbackServerContext*, const v1::NodeGenerateRequest* request) override {
    auto* stream = new TokenStream(loop_);
    if (request->numerics_id() != loop_.engine().numerics_id()) {
      static_cast<TokenSink*>(stream)->OnDone(
          NumericsMismatch(request->numerics_id(), loop_.engine().numerics_id()));
      return stream;
    }
    stream->SetHandle(
        loop_.Generate({.request_id = request->request_id(),
                        .prompt = {request->prompt().begin(), request->prompt().end()},
                        .sampling = FromProto(request->sampling()),
                        .trace = request->trace(),
                        .sink = stream}));
    return stream;
  }

  grpc::ServerUnaryReactor* ScoreTokens(grpc::CallbackServerContext*,
                                        const v1::ScoreTokensRequest* request,
                                        v1::ScoreTokensReply* reply) override {
    auto* call = new PendingCall(loop_);
    if (Refuse(request->numerics_id(), *call)) return call;
    call->SetHandle(loop_.Score({.request_id = request->request_id(),
                                 .ids = {request->ids().begin(), request->ids().end()},
                                 .top = request->top(),
                                 .trace = request->trace(),
                                 .done = [call, reply](absl::StatusOr<ScoreResult> result) {
                                   if (result.ok()) ToProto(*result, *reply);
                                   call->Answer(result.status());
                                 }}));
    return call;
  }

 private:
  // Ends a call that is meant for other numerics.
  bool Refuse(const std::string& numerics_id, PendingCall& call) const {
    if (numerics_id == loop_.engine().numerics_id()) return false;
    call.Answer(NumericsMismatch(numerics_id, loop_.engine().numerics_id()));
    return true;
  }

  NodeLoop& loop_;
  const std::string model_name_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewNodeService(NodeLoop& loop, const std::string& model_name) {
  return std::make_unique<NodeService>(loop, model_name);
}

}  // namespace headway
