// Clients that leave, nodes that fail.
#include <thread>

#include "gmock/gmock.h"
#include "runtime/cluster/error_details.h"
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

TEST_F(RouterTest, AnotherNodeTakesOverFromAFullOne) {
  const absl::Status kFull = absl::ResourceExhaustedError("queue: 256 waiting, limit 256");
  FakeNode& first = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}, .prefill = kFull});
  FakeNode& second = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}});
  FakeNode& full = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}, .reserve = kFull});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  const auto outcome = Generate(Ids({1}));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(answer_.text, "ab");
  EXPECT_EQ(outcome->timings.prefill_node, second.address());
  EXPECT_EQ(outcome->timings.decode_node, decode.address());
  EXPECT_THAT(first.events(), ElementsAre("Prefill"));
  EXPECT_THAT(full.events(), ElementsAre("Reserve"));
  EXPECT_EQ(decode.open_reservations(), 0);
  // Full is not gone.
  for (const MemberSnapshot& member : nodes_->Snapshot()) EXPECT_TRUE(member.usable);
}

TEST_F(RouterTest, FullNodesAreToldRatherThanThoseThatAreGone) {
  const absl::Status kFull = absl::ResourceExhaustedError("queue: 256 waiting, limit 256");
  FakeNode& full = AddNode(v1::NODE_ROLE_MIXED, {.stream = kFull});
  FakeNode& gone = AddNode(v1::NODE_ROLE_MIXED, {.stream = absl::UnavailableError("draining")});
  EXPECT_EQ(Generate(Ids({1})).status(), kFull);
  EXPECT_THAT(full.events(), ElementsAre("Generate"));
  EXPECT_THAT(gone.events(), ElementsAre("Generate"));
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

absl::Status Unreachable() {
  return WithCause(absl::UnavailableError("KV transfer: peer is gone"),
                   FailureCause::kTargetUnreachable);
}

TEST_F(RouterTest, AFailedTransferIsBlamedOnTheDecodeNode) {
  FakeNode& prefill =
      AddNode(v1::NODE_ROLE_PREFILL,
              {.tokens = {'a', 'b'}, .prefill = Unreachable(), .prefill_failures = 1});
  FakeNode& first = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  FakeNode& second = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  const auto outcome = Generate(Ids({1}));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(answer_.text, "ab");
  EXPECT_EQ(outcome->timings.decode_node, second.address());
  EXPECT_EQ(outcome->timings.prefill_node, prefill.address());
  EXPECT_THAT(first.events(), ElementsAre("Reserve", "Release"));
  EXPECT_THAT(Usable(), ElementsAre(true, false, true)) << "the only prefill node stays";
}

TEST_F(RouterTest, OneBadPrefillNodeDoesNotTakeTheClusterDown) {
  FakeNode& bad = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}, .prefill = Unreachable()});
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}});
  AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  for (int i = 0; i < 8; ++i) {
    const auto outcome = Generate(Ids({1}));
    ASSERT_TRUE(outcome.ok()) << outcome.status();
  }
  EXPECT_THAT(Usable(), ElementsAre(false, true, true, true));
  EXPECT_THAT(bad.events(), ElementsAre("Prefill", "Prefill")) << "once with each decode node";
}

TEST_F(RouterTest, AFailedTransferIsTriedAgainFromAnotherPrefillNode) {
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}, .prefill = Unreachable()});
  FakeNode& second = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  const auto outcome = Generate(Ids({1}));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->timings.prefill_node, second.address());
  EXPECT_THAT(decode.events(), ElementsAre("Reserve", "Release", "Reserve", "Decode"));
  EXPECT_THAT(Usable(), ElementsAre(true, true, true));
}

TEST_F(RouterTest, TransfersThatAllFailComeToAnEnd) {
  for (int i = 0; i < 3; ++i) {
    AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}, .prefill = Unreachable()});
  }
  for (int i = 0; i < 2; ++i) AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  const absl::Status status = Generate(Ids({1})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("no node is available"), HasSubstr("KV transfer: peer is gone")));
  // Two pairs, and the third prefill node with a decode node again.
  for (int i = 0; i < 3; ++i) EXPECT_THAT(fakes_[i]->events(), ElementsAre("Prefill")) << i;
  for (int i = 3; i < 5; ++i) EXPECT_EQ(fakes_[i]->open_reservations(), 0);
}

TEST_F(RouterTest, ADecodeNodeThatIsGoneDuringThePrefillIsLeftOutAtOnce) {
  options_.lease_seconds = 0.03;
  FakeNode& first = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}, .hold_prefill = true});
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}});
  AddNode(v1::NODE_ROLE_DECODE,
          {.tokens = {'a', 'b'}, .renew = absl::UnavailableError("draining")});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  std::thread node([&] {
    first.WaitFor("cancelled");
    first.SetScript({.tokens = {'a', 'b'}});
  });
  const auto outcome = Generate(Ids({1}));
  node.join();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->timings.decode_node, decode.address());
  EXPECT_THAT(Usable(), ElementsAre(true, true, false, true));
}

TEST_F(RouterTest, AReservationIsRenewedOnBothNodesWhileThePromptIsComputed) {
  options_.lease_seconds = 0.15;
  FakeNode& prefill = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}, .hold_prefill = true});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  std::thread node([&] {
    decode.WaitFor("Renew", 2);
    prefill.WaitFor("Renew", 2);
    prefill.LetGo();
  });
  const auto outcome = Generate(Ids({1}));
  node.join();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(answer_.text, "ab");
  for (FakeNode* fake : {&prefill, &decode}) {
    EXPECT_EQ(fake->last_renew().reservation_id(), decode.last_reserve().reservation_id());
    EXPECT_EQ(fake->last_renew().epoch(), 7u);
    EXPECT_EQ(fake->last_renew().lease_ms(), 150u);
  }
}

TEST_F(RouterTest, AReservationThatIsLostMeanwhileIsMadeAnew) {
  options_.lease_seconds = 0.03;
  const absl::Status kLost =
      WithCause(absl::NotFoundError("reservation 5 is not known"), FailureCause::kReservationLost);
  FakeNode& prefill = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}, .hold_prefill = true});
  FakeNode& decode =
      AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}, .renew = kLost, .renew_failures = 1});
  std::thread node([&] {
    // The first prefill is ended; the second goes through.
    prefill.WaitFor("cancelled");
    prefill.WaitFor("waiting", 2);
    prefill.LetGo();
  });
  const auto outcome = Generate(Ids({1}));
  node.join();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(answer_.text, "ab");
  EXPECT_TRUE(nodes_->Serving()) << "nobody is at fault";
  EXPECT_EQ(decode.open_reservations(), 0);
}

TEST_F(RouterTest, AReservationThatIsLostAgainAndAgainIsUnavailable) {
  const absl::Status kLost =
      WithCause(absl::NotFoundError("reservation 5 is not known"), FailureCause::kReservationLost);
  FakeNode& prefill = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}, .prefill = kLost});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  const absl::Status status = Generate(Ids({1})).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("reservation was lost"), HasSubstr("reservation 5 is not known")));
  EXPECT_THAT(prefill.events(), ElementsAre("Prefill", "Prefill", "Prefill"));
  EXPECT_EQ(decode.open_reservations(), 0);
  EXPECT_TRUE(nodes_->Serving());
}

TEST_F(RouterTest, AReservationThatDecodeDoesNotKnowIsUnavailable) {
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}});
  AddNode(v1::NODE_ROLE_DECODE,
          {.tokens = {'a'},
           .stream = WithCause(absl::NotFoundError("not known"), FailureCause::kReservationLost)});
  const absl::Status status = Generate(Ids({1})).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("reservation was lost"));
  EXPECT_TRUE(nodes_->Serving());
}

TEST_F(RouterTest, AReservationIsGivenBackUnderItsEpoch) {
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a'}, .prefill = absl::InternalError("no")});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {});
  EXPECT_EQ(Generate(Ids({1})).status(), absl::InternalError("no"));
  EXPECT_EQ(decode.last_release().epoch(), 7u);
  EXPECT_EQ(decode.last_release().reservation_id(), decode.last_reserve().reservation_id());
}

TEST_F(RouterTest, AnswersThatDoNotFitAreErrorsNotCrashes) {
  const auto kNewer = static_cast<v1::TokenFinish>(9);
  const struct {
    const char* fault;
    FakeNode::Script prefill, decode;
    const char* text;
  } kCases[] = {
      {"an unknown reason to end, with the only token",
       {.tokens = {'a'}, .finish = kNewer},
       {},
       "for reason 9, which this router does not know"},
      {"an unknown reason to end, later",
       {.tokens = {'a', 'b'}},
       {.tokens = {'a', 'b'}, .finish = kNewer},
       "for reason 9, which this router does not know"},
      {"no first token",
       {.tokens = {'a', 'b'}, .without_first = true},
       {},
       "without a first token"},
      {"no manifest", {.tokens = {'a', 'b'}, .without_manifest = true}, {}, "manifest for"},
      {"another reservation", {.tokens = {'a', 'b'}}, {.wrong_reservation = 1}, "was asked for"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.fault);
    fakes_.clear();
    router_.reset();
    nodes_.reset();
    answer_ = {};
    AddNode(v1::NODE_ROLE_PREFILL, c.prefill);
    FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, c.decode);
    const absl::Status status = Generate(Ids({1})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(c.text), HasSubstr("node 127.0.0.1")));
    EXPECT_EQ(decode.open_reservations(), 0);
  }
}

TEST_F(RouterTest, ScoresThatAreNotWholeAreAnError) {
  AddNode(v1::NODE_ROLE_MIXED, {.scores_missing = 1});
  ScoreInput input;
  input.prompt = std::vector<int32_t>{1, 2, 3};
  const absl::Status status = router().Score(scope_, input).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("scores of 1 positions"));
}

}  // namespace
}  // namespace headway
