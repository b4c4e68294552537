// Clients that leave, nodes that fail.
#include <thread>

#include "gmock/gmock.h"
#include "runtime/router/router_fixture.h"

namespace headway {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(RouterTest, CancelDuringPrefillReachesBothNodes) {
  FakeNode& prefill = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}, .hold_prefill = true});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  std::thread client([&] {
    prefill.WaitFor("waiting");
    EXPECT_EQ(decode.open_reservations(), 1);
    scope_.Cancel();
  });
  EXPECT_EQ(Generate(Ids({1})).status().code(), absl::StatusCode::kCancelled);
  client.join();
  prefill.WaitFor("cancelled");
  EXPECT_THAT(decode.events(), ElementsAre("Reserve", "Release"));
  EXPECT_EQ(decode.open_reservations(), 0);
  EXPECT_THAT(answer_.tokens, IsEmpty());
}

TEST_F(RouterTest, AReservationWhoseAnswerIsLostIsGivenBack) {
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}, .lose_reserve = true});
  std::thread client([&] {
    decode.WaitFor("Reserve");
    scope_.Cancel();
  });
  EXPECT_EQ(Generate(Ids({1})).status().code(), absl::StatusCode::kCancelled);
  client.join();
  EXPECT_THAT(decode.events(), Contains("Release"));
  EXPECT_EQ(decode.open_reservations(), 0);
}

TEST_F(RouterTest, CancelDuringDecodeReachesTheNode) {
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b', 'c'}});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b', 'c'}, .hold_after = 1});
  std::thread client([&] {
    decode.WaitFor("waiting");
    scope_.Cancel();
  });
  EXPECT_EQ(Generate(Ids({1})).status().code(), absl::StatusCode::kCancelled);
  client.join();
  decode.WaitFor("cancelled");
  EXPECT_EQ(decode.open_reservations(), 0);
}

TEST_F(RouterTest, AClientThatCannotBeWrittenToEndsTheNodesCall) {
  FakeNode& node = AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a', 'b', 'c'}, .hold_after = 1});
  answer_.on_write = [] { return absl::CancelledError("the client left"); };
  EXPECT_EQ(Generate(Ids({1})).status(), absl::CancelledError("the client left"));
  node.WaitFor("cancelled");
}

TEST_F(RouterTest, DeadlineEndsEverything) {
  FakeNode& prefill = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}, .hold_prefill = true});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  router();
  CallScope scope(CallScope::DeadlineAfter(0.2));
  EXPECT_EQ(router().Generate(scope, Ids({1}), answer_).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  prefill.WaitFor("cancelled");
  EXPECT_LE(decode.last_reserve().lease_ms(), 200u);
  EXPECT_EQ(decode.open_reservations(), 0);
}

TEST_F(RouterTest, NodesErrorsReachTheClientWordForWord) {
  const absl::Status kError = absl::ResourceExhaustedError("queue: 256 waiting, limit 256");
  const struct {
    const char* where;
    FakeNode::Script script;
    int delivered;
  } kCases[] = {
      {"reserve", {.tokens = {'a', 'b'}, .reserve = kError}, 0},
      {"prefill", {.tokens = {'a', 'b'}, .prefill = kError}, 0},
      {"decode", {.tokens = {'a', 'b', 'c'}, .stream = kError}, 3},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.where);
    fakes_.clear();
    router_.reset();
    nodes_.reset();
    answer_ = {};
    AddNode(v1::NODE_ROLE_PREFILL, c.script);
    FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, c.script);
    EXPECT_EQ(Generate(Ids({1})).status(), kError);
    EXPECT_EQ(answer_.tokens.size(), static_cast<size_t>(c.delivered));
    EXPECT_EQ(decode.open_reservations(), 0);
    // No fault of the node's: it stays in.
    EXPECT_TRUE(nodes_->Serving());
  }
}

TEST_F(RouterTest, ANodeThatCancelsIsGoneAndTheClientDidNotLeave) {
  const absl::Status kCancelled = absl::CancelledError("CANCELLED");
  FakeNode& node = AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a', 'b'}, .stream = kCancelled});
  const absl::Status status = Generate(Ids({1})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(node.address()), HasSubstr("the node ended the call")));
}

TEST_F(RouterTest, AnotherPrefillNodeTakesOver) {
  const absl::Status kDraining = absl::UnavailableError("draining");
  FakeNode& first = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}, .prefill = kDraining});
  FakeNode& second = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  const auto outcome = Generate(Ids({1}));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(answer_.text, "ab");
  EXPECT_EQ(outcome->timings.prefill_node, second.address());
  EXPECT_THAT(first.events(), ElementsAre("Prefill"));
  // The new prefill writes to a reservation of its own: the first may still be writing.
  EXPECT_THAT(decode.events(), ElementsAre("Reserve", "Release", "Reserve", "Decode"));
  EXPECT_NE(first.last_prefill().target().reservation_id(),
            second.last_prefill().target().reservation_id());
  // The next request does not even try the first.
  ASSERT_TRUE(Generate(Ids({1})).ok());
  EXPECT_THAT(first.events(), ElementsAre("Prefill"));
}

TEST_F(RouterTest, AnotherDecodeOrMixedNodeTakesOver) {
  const absl::Status kDraining = absl::UnavailableError("draining");
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}});
  FakeNode& first = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}, .reserve = kDraining});
  FakeNode& second = AddNode(v1::NODE_ROLE_MIXED, {.stream = kDraining});
  FakeNode& third = AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a', 'b'}});
  const auto outcome = Generate(Ids({1}));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(answer_.text, "ab");
  EXPECT_THAT(first.events(), ElementsAre("Reserve"));
  EXPECT_THAT(second.events(), ElementsAre("Generate"));
  EXPECT_EQ(outcome->timings.decode_node, third.address());
}

TEST_F(RouterTest, AfterTheFirstTokenNobodyTakesOver) {
  FakeNode& first = AddNode(v1::NODE_ROLE_MIXED,
                            {.tokens = {'a', 'b'}, .stream = absl::UnavailableError("draining")});
  FakeNode& second = AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a', 'b'}});
  const absl::Status status = Generate(Ids({1})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(first.address()), HasSubstr("draining")));
  EXPECT_THAT(second.events(), IsEmpty());
}

TEST_F(RouterTest, WhenAllHaveFailedTheLastFailureIsNamed) {
  FakeNode& prefill = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  router();
  prefill.Stop();
  const absl::Status status = Generate(Ids({1})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("no node is available"), HasSubstr("of 2 nodes 1"),
                    HasSubstr(decode.address()),
                    HasSubstr("the last failure: node " + prefill.address() + ": Prefill")));
  EXPECT_EQ(decode.open_reservations(), 0);
  EXPECT_FALSE(nodes_->Serving());
  // From now on at once, and nobody is bothered.
  const size_t events = decode.events().size();
  EXPECT_EQ(Generate(Ids({1})).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(decode.events().size(), events);
}

TEST_F(RouterTest, RefusesAStreamThatIsNotWhole) {
  const struct {
    const char* fault;
    FakeNode::Script script;
    const char* text;
  } kCases[] = {
      {"a token is missing",
       {.tokens = {'a', 'b'}, .first_index = 1},
       "sent token 1 where token 0 was due"},
      {"no last token",
       {.tokens = {'a', 'b'}, .end_early = true},
       "ended its stream after 2 tokens"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.fault);
    fakes_.clear();
    router_.reset();
    nodes_.reset();
    AddNode(v1::NODE_ROLE_MIXED, c.script);
    const absl::Status status = Generate(Ids({1})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(c.text), HasSubstr(fakes_[0]->address())));
  }
}

}  // namespace
}  // namespace headway
