// A whole node behind its service, called as a router calls it.
#include "runtime/server/node_service.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "proto/headway/v1/node.grpc.pb.h"
#include "runtime/base/clock.h"
#include "runtime/cluster/channel.h"
#include "runtime/cluster/error_details.h"
#include "runtime/cluster/grpc_status.h"
#include "runtime/node/local_group.h"
#include "runtime/server/server.h"
#include "runtime/transfer/local_transport.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

using testing::HasSubstr;

class NodeServiceTest : public testing::Test {
 protected:
  v1::Node::Stub& Start(NodeRole role) {
    checkpoint_ = *Checkpoint::Open(GoldenPath("models/llama_gqa_9_3"));
    LocalGroupOptions options;
    options.node.role = role;
    options.engine.kv_blocks = 24;
    options.engine.limits.max_positions = 96;
    options.engine.limits.max_rows = 64;
    options.engine.limits.max_logit_rows = 64;
    if (role != NodeRole::kMixed) options.new_transport = [this](int) { return hub_.Create(); };
    group_ = *LocalGroup::Create(*checkpoint_, options, clock_);
    service_ = NewNodeService(group_->loop(), "tiny");
    server_ = *Server::Start("127.0.0.1:0", {{service_.get(), "headway.v1.Node"}});
    stub_ = v1::Node::NewStub(OpenChannel(server_->address()));
    return *stub_;
  }

  template <typename Request, typename Reply>
  absl::Status Call(grpc::Status (v1::Node::Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Reply*),
                    const Request& request, Reply& reply) {
    grpc::ClientContext context;
    return FromGrpc((stub_.get()->*method)(&context, request, &reply));
  }

  std::string NumericsId() {
    v1::NodeInfo info;
    EXPECT_TRUE(Call(&v1::Node::Stub::GetInfo, v1::NodeInfoRequest(), info).ok());
    return info.numerics_id();
  }

  // Looks until the node's load is as wanted. What never becomes so makes the test time out here.
  template <typename Wanted>
  void WaitForLoad(Wanted wanted) {
    for (v1::NodeLoad load; !wanted(load); std::this_thread::yield()) {
      ASSERT_TRUE(Call(&v1::Node::Stub::GetLoad, v1::NodeLoadRequest(), load).ok());
    }
  }

  v1::ReserveRequest ReserveOf(int prompt_tokens, int max_tokens) {
    v1::ReserveRequest request;
    request.set_prompt_tokens(prompt_tokens);
    request.set_max_tokens(max_tokens);
    request.set_lease_ms(1000);
    request.set_numerics_id(NumericsId());
    return request;
  }

  template <typename Request>
  static Request Named(Request request, const std::string& numerics_id) {
    request.set_numerics_id(numerics_id);
    return request;
  }

  FakeClock clock_;
  LocalTransportHub hub_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<LocalGroup> group_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::Node::Stub> stub_;
};

TEST_F(NodeServiceTest, RequestsForOtherNumericsAreRefused) {
  Start(NodeRole::kPrefill);
  v1::PrefillRequest prefill;
  prefill.add_prompt(1);
  v1::PrefillReply prefilled;
  v1::ScoreTokensRequest score;
  score.add_ids(1);
  score.add_ids(2);
  v1::ScoreTokensReply scores;
  for (const char* id : {"", "n-other"}) {
    for (const absl::Status& status :
         {Call(&v1::Node::Stub::Prefill, Named(prefill, id), prefilled),
          Call(&v1::Node::Stub::ScoreTokens, Named(score, id), scores)}) {
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(NumericsId()));
    }
  }
  EXPECT_TRUE(Call(&v1::Node::Stub::ScoreTokens, Named(score, NumericsId()), scores).ok());
  EXPECT_EQ(scores.token_logprobs_size(), 1);
}

TEST_F(NodeServiceTest, MessagesWithPartsMissingAreRefused) {
  v1::Node::Stub& node = Start(NodeRole::kPrefill);
  v1::PrefillRequest prefill;
  prefill.add_prompt(1);
  v1::PrefillReply prefilled;
  // Neither sampling nor target.
  EXPECT_TRUE(absl::IsInvalidArgument(
      Call(&v1::Node::Stub::Prefill, Named(prefill, NumericsId()), prefilled)));
  grpc::ClientContext context;
  v1::TokenBatch batch;
  const auto reader = node.Decode(&context, v1::DecodeRequest());
  EXPECT_FALSE(reader->Read(&batch));
  EXPECT_THAT(reader->Finish().error_message(), HasSubstr("first token is missing"));
}

TEST_F(NodeServiceTest, ReservationsAreRenewedAndReleasedByIdAndEpoch) {
  Start(NodeRole::kDecode);
  v1::ReserveRequest reserve;
  reserve.set_prompt_tokens(8);
  reserve.set_max_tokens(4);
  reserve.set_lease_ms(1000);
  reserve.set_reservation_id(4711);
  v1::Reservation reservation;
  ASSERT_TRUE(Call(&v1::Node::Stub::Reserve, Named(reserve, NumericsId()), reservation).ok());
  v1::RenewRequest renew;
  renew.set_reservation_id(4711);
  renew.set_epoch(reservation.epoch());
  renew.set_lease_ms(700);
  v1::RenewReply renewed;
  ASSERT_TRUE(Call(&v1::Node::Stub::Renew, renew, renewed).ok());
  EXPECT_EQ(renewed.lease_ms(), 700u);

  v1::ReleaseRequest release;
  release.set_reservation_id(4711);
  release.set_epoch(reservation.epoch() + 1);
  v1::ReleaseReply released;
  EXPECT_TRUE(Call(&v1::Node::Stub::Release, release, released).ok());
  EXPECT_TRUE(Call(&v1::Node::Stub::Renew, renew, renewed).ok()) << "another epoch's is not ours";
  release.set_epoch(reservation.epoch());
  EXPECT_TRUE(Call(&v1::Node::Stub::Release, release, released).ok());
  const absl::Status lost = Call(&v1::Node::Stub::Renew, renew, renewed);
  EXPECT_TRUE(absl::IsNotFound(lost)) << lost;
  EXPECT_EQ(CauseOf(lost), FailureCause::kReservationLost);
}

// The prompt's KV never comes, and the clock stands: nothing but the cancellation ends it.
TEST_F(NodeServiceTest, CancellingAStreamFreesItsSequence) {
  v1::Node::Stub& node = Start(NodeRole::kDecode);
  v1::Reservation reservation;
  ASSERT_TRUE(Call(&v1::Node::Stub::Reserve, ReserveOf(1, 4), reservation).ok());
  const ModelConfig& config = group_->leader_engine().config();
  v1::DecodeRequest decode;
  decode.add_prompt(1);
  decode.mutable_first()->set_id(2);
  decode.mutable_sampling()->set_max_tokens(4);
  decode.mutable_sampling()->set_top_p(1);
  decode.mutable_manifest()->set_reservation_id(reservation.reservation_id());
  decode.mutable_manifest()->set_epoch(reservation.epoch());
  decode.mutable_manifest()->add_ranks()->set_runs(config.layers * config.kv_heads);
  grpc::ClientContext context;
  const auto reader = node.Decode(&context, decode);
  // Until the node has it: one of another epoch is refused, in these words from then on.
  v1::DecodeRequest other = decode;
  other.mutable_manifest()->set_epoch(reservation.epoch() + 1);
  for (std::string told; told.find("already being decoded") == told.npos;) {
    grpc::ClientContext other_context;
    told = node.Decode(&other_context, other)->Finish().error_message();
    ASSERT_THAT(told, HasSubstr("reservation"));
  }
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  WaitForLoad([](const v1::NodeLoad& load) {
    return load.total_blocks() > 0 && load.free_blocks() == load.total_blocks();
  });
}

TEST_F(NodeServiceTest, CancellingACallThatWaitsFreesItsPlace) {
  v1::Node::Stub& node = Start(NodeRole::kDecode);
  const v1::ReserveRequest request = ReserveOf(90, 6);
  v1::Reservation reservation;
  for (int i = 0; i < 4; ++i) {  // all blocks
    ASSERT_TRUE(Call(&v1::Node::Stub::Reserve, request, reservation).ok());
  }
  grpc::ClientContext context;
  grpc::Status status;
  std::thread waits([&] { status = node.Reserve(&context, request, &reservation); });
  WaitForLoad([](const v1::NodeLoad& load) { return load.waiting() == 1; });
  context.TryCancel();
  waits.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  WaitForLoad(
      [](const v1::NodeLoad& load) { return load.reservations() == 4 && load.waiting() == 0; });
}

TEST_F(NodeServiceTest, ANodeThatIsToGetNoRequestsSaysWhyItself) {
  Start(NodeRole::kMixed);
  v1::NodeLoad load;
  ASSERT_TRUE(Call(&v1::Node::Stub::GetLoad, v1::NodeLoadRequest(), load).ok());
  EXPECT_EQ(load.total_blocks(), 24);
  EXPECT_EQ(load.free_blocks(), 24);
  v1::NodeInfo info;
  ASSERT_TRUE(Call(&v1::Node::Stub::GetInfo, v1::NodeInfoRequest(), info).ok());
  EXPECT_EQ(info.max_running(), group_->loop().options().queue.max_running);
  EXPECT_GT(info.max_running(), 0);
  EXPECT_TRUE(group_->loop().Drain(10));
  for (const absl::Status& status : {Call(&v1::Node::Stub::GetLoad, v1::NodeLoadRequest(), load),
                                     Call(&v1::Node::Stub::GetInfo, v1::NodeInfoRequest(), info)}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("drains"));
  }
}

}  // namespace
}  // namespace headway
