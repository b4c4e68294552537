#include "runtime/cluster/fake_node.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/server_callback.h"
#include "proto/headway/v1/node.grpc.pb.h"
#include "runtime/base/check.h"
#include "runtime/cluster/grpc_status.h"

namespace headway {

// A call that waits until it is let go or cancelled.
class FakeNode::Held {
 public:
  virtual ~Held() = default;
  virtual void Go() = 0;
};

class FakeNode::Stream : public grpc::ServerWriteReactor<v1::TokenBatch>, public Held {
 public:
  // Plays the tokens of `script` from `first` on.
  Stream(FakeNode& node, Script script, int first)
      : node_(node), script_(std::move(script)), next_(first) {
    Continue();
  }

  void OnWriteDone(bool ok) override {
    if (ok) Continue();
  }
  void Go() override {
    {
      std::lock_guard lock(mutex_);
      script_.hold_after = -1;
    }
    Continue();
  }
  void OnCancel() override {
    node_.Note("cancelled");
    End(absl::CancelledError("cancelled"));
  }
  void OnDone() override {
    {
      std::lock_guard lock(node_.mutex_);
      node_.held_.erase(this);
    }
    delete this;
  }

 private:
  void Continue() {
    std::unique_lock lock(mutex_);
    const int count = static_cast<int>(script_.tokens.size());
    if (sent_ == script_.hold_after) {
      lock.unlock();
      std::lock_guard node_lock(node_.mutex_);
      node_.held_.insert(this);
      node_.events_.push_back("waiting");
      node_.changed_.notify_all();
      return;
    }
    if (next_ >= count) {
      const absl::Status status = script_.stream;
      lock.unlock();
      End(status);
      return;
    }
    batch_.Clear();
    for (int i = 0; i < script_.tokens_per_batch && next_ < count; ++i, ++next_, ++sent_) {
      v1::Token& token = *batch_.add_tokens();
      token.set_index(script_.first_index + next_);
      token.set_id(script_.tokens[next_]);
      token.set_logprob(-0.5f * (next_ + 1));
      v1::Alternative& top = *token.add_top();
      top.set_id(script_.tokens[next_]);
      top.set_logprob(-0.5f * (next_ + 1));
      v1::PositionDigest& trace = *token.add_trace();
      trace.set_position(100 + next_);
      trace.mutable_layers()->Resize(script_.trace_layers, next_);
      const bool last = next_ + 1 == count && script_.stream.ok() && !script_.end_early;
      if (last) token.set_finish(script_.finish);
    }
    const int tokens = batch_.tokens_size();
    lock.unlock();
    {
      std::lock_guard node_lock(node_.mutex_);
      node_.tokens_sent_ += tokens;
    }
    StartWrite(&batch_);
  }

  void End(const absl::Status& status) {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(ended_, true)) return;
    }
    Finish(ToGrpc(status));
  }

  FakeNode& node_;
  std::mutex mutex_;
  Script script_;
  v1::TokenBatch batch_;
  int next_;
  int sent_ = 0;
  bool ended_ = false;
};

class FakeNode::Service : public v1::Node::CallbackService {
 public:
  explicit Service(FakeNode& node) : node_(node) {}

  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const v1::NodeInfoRequest*, v1::NodeInfo* reply) override {
    *reply = node_.info_;
    std::lock_guard lock(node_.mutex_);
    return Answer(context, node_.script_.info);
  }

  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* context,
                                    const v1::NodeLoadRequest*, v1::NodeLoad* reply) override {
    std::lock_guard lock(node_.mutex_);
    if (node_.script_.lose_load) return new LostCall(node_);
    if (node_.load_) {
      *reply = *node_.load_;
    } else {
      reply->set_free_blocks(node_.info_.kv_blocks());
      reply->set_total_blocks(node_.info_.kv_blocks());
    }
    return Answer(context, node_.script_.load);
  }

  grpc::ServerUnaryReactor* Reserve(grpc::CallbackServerContext* context,
                                    const v1::ReserveRequest* request,
                                    v1::Reservation* reply) override {
    absl::Status status;
    bool lost;
    {
      std::lock_guard lock(node_.mutex_);
      node_.last_reserve_ = *request;
      status = node_.script_.reserve;
      lost = node_.script_.lose_reserve;
      reply->set_reservation_id(request->reservation_id() +
                                (lost ? 0 : node_.script_.wrong_reservation));
      reply->set_epoch(7);
      reply->set_lease_ms(request->lease_ms());
      reply->set_degree(node_.info_.degree());
      for (int i = 0; i < node_.info_.degree(); ++i)
        reply->add_rank_addresses(absl::StrCat("rank", i));
      if (status.ok()) node_.reservations_.insert(reply->reservation_id());
    }
    // Who waits for this may give the reservation back at once.
    node_.Note("Reserve");
    // Granted, and the answer does not come: the call stays open until its caller leaves.
    if (status.ok() && lost) return new LostCall(node_);
    return Answer(context, status);
  }

  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* context,
                                  const v1::RenewRequest* request, v1::RenewReply* reply) override {
    reply->set_lease_ms(request->lease_ms());
    absl::Status status;
    {
      std::lock_guard lock(node_.mutex_);
      node_.last_renew_ = *request;
      status = Next(node_.script_.renew, node_.script_.renew_failures);
    }
    node_.Note("Renew");
    return Answer(context, status);
  }

  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request, v1::ReleaseReply*) override {
    {
      std::lock_guard lock(node_.mutex_);
      node_.last_release_ = *request;
      if (request->epoch() == 7 || request->epoch() == 0)
        node_.reservations_.erase(request->reservation_id());
    }
    node_.Note("Release");
    return Answer(context, absl::OkStatus());
  }

  grpc::ServerUnaryReactor* Prefill(grpc::CallbackServerContext*, const v1::PrefillRequest* request,
                                    v1::PrefillReply* reply) override {
    Script script;
    {
      std::lock_guard lock(node_.mutex_);
      node_.last_prefill_ = *request;
      script = node_.script_;
      script.prefill = Next(script.prefill, node_.script_.prefill_failures);
    }
    node_.Note("Prefill");
    if (script.prefill.ok()) {
      v1::Token& first = *reply->mutable_first();
      first.set_index(script.first_index);
      first.set_id(script.tokens.at(0));
      first.set_logprob(-0.5f);
      first.add_trace()->set_position(99);
      if (script.tokens.size() == 1) first.set_finish(script.finish);
      if (script.without_first) reply->clear_first();
      reply->mutable_manifest()->set_reservation_id(request->target().reservation_id());
      reply->mutable_manifest()->set_epoch(request->target().epoch());
      for (int i = 0; i < request->target().degree(); ++i) {
        reply->mutable_manifest()->add_ranks()->set_runs(i + 1);
      }
      if (script.without_manifest) reply->clear_manifest();
      reply->set_kv_bytes(4096);
      reply->mutable_timings()->set_queue_us(11);
      reply->mutable_timings()->set_compute_us(22);
      reply->mutable_timings()->set_transfer_us(33);
    }
    auto* call = new PrefillCall(node_, script.prefill);
    if (script.hold_prefill) {
      call->Hold();
    } else {
      call->Go();
    }
    return call;
  }

  grpc::ServerWriteReactor<v1::TokenBatch>* Decode(grpc::CallbackServerContext*,
                                                   const v1::DecodeRequest* request) override {
    Script script;
    {
      std::lock_guard lock(node_.mutex_);
      node_.last_decode_ = *request;
      node_.reservations_.erase(request->manifest().reservation_id());
      script = node_.script_;
    }
    node_.Note("Decode");
    return new Stream(node_, script, 1);
  }

  grpc::ServerWriteReactor<v1::TokenBatch>* Generate(
      grpc::CallbackServerContext*, const v1::NodeGenerateRequest* request) override {
    Script script;
    {
      std::lock_guard lock(node_.mutex_);
      node_.last_generate_ = *request;
      script = node_.script_;
    }
    node_.Note("Generate");
    return new Stream(node_, script, 0);
  }

  grpc::ServerUnaryReactor* ScoreTokens(grpc::CallbackServerContext* context,
                                        const v1::ScoreTokensRequest* request,
                                        v1::ScoreTokensReply* reply) override {
    node_.Note("ScoreTokens");
    std::lock_guard lock(node_.mutex_);
    node_.last_score_ = *request;
    for (int i = 0; i + 1 < request->ids_size() - node_.script_.scores_missing; ++i) {
      reply->add_token_logprobs(-1.0f - i);
      if (request->top() == 0) continue;
      v1::Alternative& top = *reply->add_top()->add_alternatives();
      top.set_id(request->ids(i + 1));
      top.set_logprob(-1.0f - i);
    }
    return Answer(context, node_.script_.score);
  }

 private:
  class PrefillCall : public grpc::ServerUnaryReactor, public Held {
   public:
    PrefillCall(FakeNode& node, absl::Status status) : node_(node), status_(std::move(status)) {}
    void Hold() {
      std::lock_guard lock(node_.mutex_);
      node_.held_.insert(this);
      node_.events_.push_back("waiting");
      node_.changed_.notify_all();
    }
    void Go() override { End(status_); }
    void OnCancel() override {
      node_.Note("cancelled");
      End(absl::CancelledError("cancelled"));
    }
    void OnDone() override {
      {
        std::lock_guard lock(node_.mutex_);
        node_.held_.erase(this);
      }
      delete this;
    }

   private:
    void End(const absl::Status& status) {
      {
        std::lock_guard lock(mutex_);
        if (std::exchange(ended_, true)) return;
      }
      Finish(ToGrpc(status));
    }

    FakeNode& node_;
    const absl::Status status_;
    std::mutex mutex_;
    bool ended_ = false;
  };

  // Never answers by itself.
  class LostCall : public grpc::ServerUnaryReactor {
   public:
    explicit LostCall(FakeNode& node) : node_(node) {}
    void OnCancel() override {
      node_.Note("cancelled");
      Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override { delete this; }

   private:
    FakeNode& node_;
  };

  static grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                          const absl::Status& status) {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(status));
    return reactor;
  }

  FakeNode& node_;
};

FakeNode::FakeNode(v1::NodeInfo info, int port) : info_(std::move(info)) {
  if (info_.degree() == 0) info_.set_degree(1);
  if (info_.numerics_id().empty()) info_.set_numerics_id("n-1");
  if (info_.model_name().empty()) info_.set_model_name("fake");
  if (info_.vocabulary() == 0) info_.set_vocabulary(1000);
  if (info_.max_positions() == 0) info_.set_max_positions(256);
  if (info_.kv_blocks() == 0) info_.set_kv_blocks(64);
  if (info_.max_running() == 0) info_.set_max_running(32);
  service_ = std::make_unique<Service>(*this);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(),
                           &port_);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  HEADWAY_CHECK(server_ != nullptr && port_ != 0);
}

FakeNode::FakeNode(v1::NodeRole role)
    : FakeNode([&] {
        v1::NodeInfo info;
        info.set_role(role);
        return info;
      }()) {}

FakeNode::~FakeNode() { Stop(); }

std::string FakeNode::address() const { return absl::StrCat("127.0.0.1:", port_); }

void FakeNode::Stop() {
  if (server_) server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
}

void FakeNode::SetScript(Script script) {
  std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

void FakeNode::SetLoad(v1::NodeLoad load) {
  std::lock_guard lock(mutex_);
  load_ = std::move(load);
}

void FakeNode::LetGo() {
  std::set<Held*> held;
  {
    std::lock_guard lock(mutex_);
    held.swap(held_);
  }
  for (Held* call : held) call->Go();
}

absl::Status FakeNode::Next(const absl::Status& failure, int& left) {
  if (left == 0) return absl::OkStatus();
  if (left > 0) --left;
  return failure;
}

void FakeNode::Note(const std::string& event) {
  std::lock_guard lock(mutex_);
  events_.push_back(event);
  changed_.notify_all();
}

std::vector<std::string> FakeNode::events() const {
  std::lock_guard lock(mutex_);
  return events_;
}

void FakeNode::WaitFor(const std::string& name, int times) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return std::count(events_.begin(), events_.end(), name) >= times; });
}

int FakeNode::tokens_sent() const {
  std::lock_guard lock(mutex_);
  return tokens_sent_;
}

int FakeNode::open_reservations() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(reservations_.size());
}

v1::ReserveRequest FakeNode::last_reserve() const {
  std::lock_guard lock(mutex_);
  return last_reserve_;
}

v1::PrefillRequest FakeNode::last_prefill() const {
  std::lock_guard lock(mutex_);
  return last_prefill_;
}

v1::RenewRequest FakeNode::last_renew() const {
  std::lock_guard lock(mutex_);
  return last_renew_;
}

v1::ReleaseRequest FakeNode::last_release() const {
  std::lock_guard lock(mutex_);
  return last_release_;
}

v1::DecodeRequest FakeNode::last_decode() const {
  std::lock_guard lock(mutex_);
  return last_decode_;
}

v1::NodeGenerateRequest FakeNode::last_generate() const {
  std::lock_guard lock(mutex_);
  return last_generate_;
}

v1::ScoreTokensRequest FakeNode::last_score() const {
  std::lock_guard lock(mutex_);
  return last_score_;
}

}  // namespace headway
