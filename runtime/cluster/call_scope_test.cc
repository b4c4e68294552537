#include "runtime/cluster/call_scope.h"

#include <future>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/headway/v1/node.pb.h"
#include "runtime/cluster/fake_node.h"
#include "runtime/cluster/node_client.h"

namespace headway {
namespace {

using testing::StartsWith;

// Calls to a node, ended from outside in every way.
class CallScopeTest : public testing::Test {
 protected:
  CallScopeTest() {
    node_.SetScript({.tokens = {5, 6, 7, 8}, .hold_after = 2, .hold_prefill = true});
  }

  // A unary call, waited for.
  absl::Status Prefill(CallScope& scope) {
    std::promise<absl::Status> ended;
    client_->PrefillAsync(scope, {}, [&](const absl::StatusOr<v1::PrefillReply>& reply) {
      ended.set_value(reply.status());
    });
    return ended.get_future().get();
  }

  FakeNode node_{v1::NODE_ROLE_MIXED};
  std::unique_ptr<NodeClient> client_ = NodeClient::Connect(node_.address());
};

TEST_F(CallScopeTest, CancelEndsAStreamInFlight) {
  CallScope scope(CallScope::DeadlineAfter(60));
  const auto stream = client_->Generate(scope, {});
  v1::TokenBatch batch;
  for (int id : {5, 6}) {
    const auto more = stream->Read(batch);
    ASSERT_TRUE(more.ok() && *more) << more.status();
    EXPECT_EQ(batch.tokens(0).id(), id);
  }
  std::thread canceller([&] {
    node_.WaitFor("waiting");
    scope.Cancel();
  });
  EXPECT_EQ(stream->Read(batch).status().code(), absl::StatusCode::kCancelled);
  // What has ended stays ended, with the same answer.
  EXPECT_EQ(stream->Read(batch).status().code(), absl::StatusCode::kCancelled);
  canceller.join();
  node_.WaitFor("cancelled");
  EXPECT_EQ(scope.Check().code(), absl::StatusCode::kCancelled);
}

TEST_F(CallScopeTest, CancelEndsAUnaryCallInFlight) {
  CallScope scope(CallScope::DeadlineAfter(60));
  std::thread canceller([&] {
    node_.WaitFor("waiting");
    scope.Cancel();
  });
  EXPECT_EQ(Prefill(scope).code(), absl::StatusCode::kCancelled);
  canceller.join();
  node_.WaitFor("cancelled");
}

TEST_F(CallScopeTest, APartEndsWithTheWholeAndAlone) {
  CallScope whole(CallScope::DeadlineAfter(60));
  {
    CallScope part(whole);
    EXPECT_EQ(part.deadline(), whole.deadline());
    part.Cancel();
    EXPECT_EQ(Prefill(part).code(), absl::StatusCode::kCancelled);
    EXPECT_TRUE(whole.Check().ok());
  }
  CallScope part(whole);
  std::thread canceller([&] {
    node_.WaitFor("waiting");
    whole.Cancel();
  });
  EXPECT_EQ(Prefill(part).code(), absl::StatusCode::kCancelled);
  canceller.join();
  EXPECT_EQ(CallScope(whole).Check().code(), absl::StatusCode::kCancelled);
}

TEST_F(CallScopeTest, CallsAfterCancelFailAtOnce) {
  CallScope scope(CallScope::DeadlineAfter(60));
  scope.Cancel();
  scope.Cancel();
  v1::TokenBatch batch;
  EXPECT_EQ(client_->Generate(scope, {})->Read(batch).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(Prefill(scope).code(), absl::StatusCode::kCancelled);
}

TEST_F(CallScopeTest, DeadlineEndsCalls) {
  CallScope scope(CallScope::DeadlineAfter(0.05));
  EXPECT_EQ(Prefill(scope).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(scope.Check().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(CallScopeTest, LeavingAStreamEndsItAtTheNode) {
  CallScope scope(CallScope::DeadlineAfter(60));
  {
    const auto stream = client_->Generate(scope, {});
    v1::TokenBatch batch;
    ASSERT_TRUE(stream->Read(batch).ok());
  }
  node_.WaitFor("cancelled");
  EXPECT_TRUE(scope.Check().ok());
}

TEST_F(CallScopeTest, NodesErrorsComeWordForWordAndConnectionErrorsNameTheNode) {
  CallScope scope(CallScope::DeadlineAfter(60));
  node_.SetScript({.tokens = {5}, .reserve = absl::ResourceExhaustedError("9 blocks of 8")});
  const absl::Status refused = client_->Reserve(scope, {}).status();
  EXPECT_EQ(refused, absl::ResourceExhaustedError("9 blocks of 8"));
  node_.Stop();
  const absl::Status gone = client_->Reserve(scope, {}).status();
  EXPECT_EQ(gone.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(gone.message()), StartsWith("node " + node_.address() + ": Reserve: "));
}

TEST_F(CallScopeTest, StreamThatEndsWellReadsFalse) {
  CallScope scope(CallScope::DeadlineAfter(60));
  node_.SetScript({.tokens = {5, 6, 7}, .tokens_per_batch = 2});
  const auto stream = client_->Generate(scope, {});
  v1::TokenBatch batch;
  ASSERT_TRUE(*stream->Read(batch));
  EXPECT_EQ(batch.tokens_size(), 2);
  ASSERT_TRUE(*stream->Read(batch));
  ASSERT_EQ(batch.tokens_size(), 1);
  EXPECT_EQ(batch.tokens(0).finish(), v1::TOKEN_FINISH_LENGTH);
  EXPECT_FALSE(*stream->Read(batch));
}

}  // namespace
}  // namespace headway
