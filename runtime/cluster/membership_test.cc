#include "runtime/cluster/membership.h"

#include <condition_variable>
#include <mutex>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/cluster/fake_node.h"

namespace headway {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

v1::NodeInfo Info(v1::NodeRole role, const std::string& numerics_id = "n-1") {
  v1::NodeInfo info;
  info.set_role(role);
  info.set_numerics_id(numerics_id);
  return info;
}

std::vector<bool> Usable(const Membership& nodes) {
  std::vector<bool> usable;
  for (const MemberSnapshot& member : nodes.Snapshot()) usable.push_back(member.usable);
  return usable;
}

TEST(MembershipTest, KnowsNobodyBeforeItHasAsked) {
  FakeClock clock;
  FakeNode node(v1::NODE_ROLE_MIXED);
  const Membership nodes({{node.address()}}, {}, clock);
  EXPECT_THAT(Usable(nodes), ElementsAre(false));
  EXPECT_FALSE(nodes.Serving());
}

TEST(MembershipTest, TakesInWhatNodesSay) {
  FakeClock clock;
  FakeNode prefill(v1::NODE_ROLE_PREFILL), decode(v1::NODE_ROLE_DECODE);
  v1::NodeLoad load;
  load.set_free_blocks(17);
  load.set_running(3);
  decode.SetLoad(load);
  Membership nodes({{prefill.address()}, {decode.address()}}, {}, clock);
  nodes.Poll();
  EXPECT_TRUE(nodes.Serving());
  EXPECT_EQ(nodes.numerics_id(), "n-1");
  std::vector<MemberSnapshot> members = nodes.Snapshot();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].role, NodeRole::kPrefill);
  EXPECT_EQ(members[1].role, NodeRole::kDecode);
  EXPECT_EQ(members[1].index, 1);
  EXPECT_EQ(members[1].address, decode.address());
  // Before the first look at its load a node counts as idle.
  EXPECT_EQ(members[1].load.free_blocks(), 64);
  nodes.Poll();
  members = nodes.Snapshot();
  EXPECT_EQ(members[1].load.free_blocks(), 17);
  EXPECT_EQ(members[1].load.running(), 3);
}

TEST(MembershipTest, ServesOnlyWithAWholePathForARequest) {
  const struct {
    std::vector<v1::NodeRole> roles;
    bool serving;
  } kCases[] = {
      {{v1::NODE_ROLE_MIXED}, true},
      {{v1::NODE_ROLE_PREFILL}, false},
      {{v1::NODE_ROLE_DECODE}, false},
      {{v1::NODE_ROLE_DECODE, v1::NODE_ROLE_DECODE}, false},
      {{v1::NODE_ROLE_DECODE, v1::NODE_ROLE_PREFILL}, true},
      {{v1::NODE_ROLE_DECODE, v1::NODE_ROLE_MIXED}, true},
      {{v1::NODE_ROLE_UNSPECIFIED}, false},
  };
  for (const auto& c : kCases) {
    FakeClock clock;
    std::vector<std::unique_ptr<FakeNode>> fakes;
    std::vector<NodeAddress> addresses;
    for (v1::NodeRole role : c.roles) {
      fakes.push_back(std::make_unique<FakeNode>(role));
      addresses.push_back({fakes.back()->address()});
    }
    Membership nodes(addresses, {}, clock);
    nodes.Poll();
    EXPECT_EQ(nodes.Serving(), c.serving) << testing::PrintToString(c.roles);
  }
}

TEST(MembershipTest, RefusesANodeWithOtherNumericsByPlaceInTheList) {
  FakeClock clock;
  FakeNode first(Info(v1::NODE_ROLE_MIXED, "n-1")), second(Info(v1::NODE_ROLE_MIXED, "n-2")),
      third(Info(v1::NODE_ROLE_MIXED, "n-1"));
  Membership nodes({{first.address()}, {second.address()}, {third.address()}}, {}, clock);
  testing::internal::CaptureStderr();
  nodes.Poll();
  nodes.Poll();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(Usable(nodes), ElementsAre(true, false, true));
  // One line, naming both.
  const std::string line = "node " + second.address() +
                           " refused: its numerics id is n-2, that of node " + first.address() +
                           " is n-1";
  EXPECT_THAT(log, HasSubstr(line));
  EXPECT_EQ(log.find(line), log.rfind(line));
}

TEST(MembershipTest, RefusesByItsOwnNumericsWhenGiven) {
  FakeClock clock;
  FakeNode first(Info(v1::NODE_ROLE_MIXED, "n-1")), second(Info(v1::NODE_ROLE_MIXED, "n-2"));
  Membership nodes({{first.address()}, {second.address()}}, {.numerics_id = "n-2"}, clock);
  nodes.Poll();
  EXPECT_THAT(Usable(nodes), ElementsAre(false, true));
}

TEST(MembershipTest, RefusesNodesOfAnotherCheckpointThanItsOwn) {
  FakeClock clock;
  FakeNode other(Info(v1::NODE_ROLE_MIXED, "aaaa-q8")), own(Info(v1::NODE_ROLE_MIXED, "bbbb-q8"));
  Membership nodes({{other.address()}, {own.address()}}, {.checkpoint_id = "bbbb"}, clock);
  const absl::Status status = nodes.WaitReady(10, [](double) { FAIL(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(other.address()), HasSubstr("its numerics id is aaaa-q8"),
                    HasSubstr("the checkpoint here has the id bbbb")));
  // The first of the list decides nothing when it is refused.
  EXPECT_THAT(Usable(nodes), ElementsAre(false, true));
  EXPECT_EQ(nodes.numerics_id(), "bbbb-q8");
}

TEST(MembershipTest, RefusesANodeOfAnotherRoleThanIsSaid) {
  FakeClock clock;
  FakeNode decode(v1::NODE_ROLE_DECODE), prefill(v1::NODE_ROLE_PREFILL);
  Membership nodes(
      {{decode.address(), NodeRole::kPrefill}, {prefill.address(), NodeRole::kPrefill}}, {}, clock);
  const absl::Status status = nodes.WaitReady(10, [](double) { FAIL(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(decode.address()), HasSubstr("it is a decode node"),
                    HasSubstr("listed as a prefill node")));
  EXPECT_THAT(Usable(nodes), ElementsAre(false, true));
}

TEST(MembershipTest, LeavesANodeOutForAWhileAfterUnavailable) {
  FakeClock clock;
  FakeNode node(v1::NODE_ROLE_MIXED);
  Membership nodes({{node.address()}}, {.leave_out_seconds = 2}, clock);
  nodes.Poll();
  ASSERT_TRUE(nodes.Serving());
  nodes.ReportFailure(0, absl::ResourceExhaustedError("full"));
  nodes.ReportFailure(0, absl::CancelledError("gone"));
  EXPECT_TRUE(nodes.Serving());
  nodes.ReportFailure(0, absl::UnavailableError("draining"));
  EXPECT_FALSE(nodes.Serving());
  // It still answers, but has just refused work.
  clock.AdvanceSeconds(1.9);
  nodes.Poll();
  EXPECT_FALSE(nodes.Serving());
  clock.AdvanceSeconds(0.2);
  EXPECT_TRUE(nodes.Serving());
}

TEST(MembershipTest, AsksANodeAnewWhenItComesBack) {
  FakeClock clock;
  auto node = std::make_unique<FakeNode>(Info(v1::NODE_ROLE_MIXED, "n-1"));
  const int port = node->port();
  Membership nodes({{node->address()}}, {.leave_out_seconds = 0}, clock);
  nodes.Poll();
  ASSERT_TRUE(nodes.Serving());
  node.reset();
  nodes.Poll();
  EXPECT_FALSE(nodes.Serving());
  // Another checkpoint on the same port.
  node = std::make_unique<FakeNode>(Info(v1::NODE_ROLE_MIXED, "n-2"), port);
  testing::internal::CaptureStderr();
  // The connection may wait out its backoff, up to a second.
  while (!testing::Test::HasFailure() && nodes.Snapshot()[0].info.numerics_id().empty())
    nodes.Poll();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("refused: its numerics id is n-2"));
  EXPECT_FALSE(nodes.Serving());
}

TEST(MembershipTest, WaitReadyRetriesUntilAllAnswer) {
  FakeClock clock;
  FakeNode first(v1::NODE_ROLE_MIXED);
  auto second = std::make_unique<FakeNode>(v1::NODE_ROLE_MIXED);
  const int port = second->port();
  second.reset();
  Membership nodes({{first.address()}, {"127.0.0.1:" + std::to_string(port)}}, {}, clock);
  int rounds = 0;
  const absl::Status status = nodes.WaitReady(1e9, [&](double) {
    if (++rounds == 2) {
      second = std::make_unique<FakeNode>(Info(v1::NODE_ROLE_MIXED), port);
    }
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GE(rounds, 2);
  EXPECT_THAT(Usable(nodes), ElementsAre(true, true));
}

TEST(MembershipTest, WaitReadyGivesUpAtItsDeadlineAndNamesTheMissing) {
  FakeClock clock;
  FakeNode first(v1::NODE_ROLE_MIXED), second(v1::NODE_ROLE_MIXED);
  second.Stop();
  Membership nodes({{first.address()}, {second.address()}}, {.poll_seconds = 0.5}, clock);
  int rounds = 0;
  const absl::Status status = nodes.WaitReady(10, [&](double seconds) {
    ++rounds;
    clock.AdvanceSeconds(seconds);
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(rounds, 20);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("after 10 s"), HasSubstr(second.address()),
                    testing::Not(HasSubstr(first.address()))));
}

TEST(MembershipTest, WaitReadyFailsAtOnceForARefusedNode) {
  FakeClock clock;
  FakeNode first(Info(v1::NODE_ROLE_MIXED, "n-1")), second(Info(v1::NODE_ROLE_MIXED, "n-2"));
  Membership nodes({{first.address()}, {second.address()}}, {}, clock);
  const absl::Status status = nodes.WaitReady(10, [](double) { FAIL() << "nothing to wait for"; });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("n-1"), HasSubstr("n-2"), HasSubstr(second.address())));
}

TEST(MembershipTest, CountsWhatWasHandedOutUntilTheNodeDoes) {
  FakeClock clock;
  FakeNode node(v1::NODE_ROLE_MIXED);
  Membership nodes({{node.address()}}, {}, clock);
  nodes.Poll();
  nodes.NoteReserved(0, 5);
  nodes.NoteReserved(0, 6);
  EXPECT_EQ(nodes.Snapshot()[0].noted_blocks, 11);
  EXPECT_EQ(nodes.Snapshot()[0].noted_requests, 2);
  nodes.Poll();
  EXPECT_EQ(nodes.Snapshot()[0].noted_blocks, 0);
  EXPECT_EQ(nodes.Snapshot()[0].noted_requests, 0);
}

TEST(MembershipTest, ANodeThatCannotTellItsLoadIsLeftOut) {
  FakeClock clock;
  FakeNode node(v1::NODE_ROLE_MIXED);
  Membership nodes({{node.address()}}, {}, clock);
  nodes.Poll();
  node.SetScript({.load = absl::InternalError("ranks are gone")});
  nodes.Poll();
  EXPECT_FALSE(nodes.Serving());
}

TEST(MembershipTest, ANodeThatGetsNoProcessorForAWhileComesBackByItself) {
  FakeClock clock;
  FakeNode node(v1::NODE_ROLE_MIXED);
  Membership nodes({{node.address()}}, {.call_seconds = 0.05, .leave_out_seconds = 2}, clock);
  while (!nodes.Serving()) nodes.Poll();
  node.SetScript({.lose_load = true});
  nodes.Poll();
  EXPECT_FALSE(nodes.Serving());
  node.SetScript({});
  nodes.Poll();
  EXPECT_FALSE(nodes.Serving()) << "left out for a while";
  clock.AdvanceSeconds(2.1);
  // A look may be late on a busy machine; the node is asked until one is not.
  while (!nodes.Serving()) nodes.Poll();
  EXPECT_EQ(nodes.Snapshot()[0].info.numerics_id(), "n-1");
}

TEST(MembershipTest, ANodeThatIsStuckOrDrainsGetsNoRequests) {
  FakeClock clock;
  FakeNode node(v1::NODE_ROLE_MIXED);
  Membership nodes({{node.address()}}, {.leave_out_seconds = 0}, clock);
  nodes.Poll();
  ASSERT_TRUE(nodes.Serving());
  node.SetScript({.info = absl::UnavailableError("the node drains"),
                  .load = absl::UnavailableError("the node drains")});
  for (int i = 0; i < 3; ++i) {
    nodes.Poll();
    EXPECT_FALSE(nodes.Serving());
  }
  node.SetScript({});
  nodes.Poll();
  EXPECT_TRUE(nodes.Serving());
}

TEST(MembershipTest, WhoIsToBlameForFailedTransfersShowsByWhoReportsThem) {
  constexpr bool kOut = false, kIn = true;
  constexpr int kWait = -1, kReached = -2;  // in place of a report
  struct Step {
    int prefill, decode;
    int what = 0;
  };
  const struct {
    const char* situation;
    int prefill_nodes, decode_nodes;  // indices in this order
    std::vector<Step> steps;
    std::vector<bool> usable;
  } kCases[] = {
      {"the only prefill node", 1, 2, {{0, 1}}, {kIn, kOut, kIn}},
      {"one pair, however often", 2, 1, {{0, 2}, {0, 2}, {0, 2}}, {kIn, kIn, kIn}},
      {"two prefill nodes agree", 2, 2, {{0, 2}, {1, 2}}, {kIn, kIn, kOut, kIn}},
      {"two are enough", 3, 1, {{0, 3}, {2, 3}}, {kIn, kIn, kIn, kOut}},
      {"no decode node can be reached", 2, 2, {{0, 2}, {0, 3}}, {kOut, kIn, kIn, kIn}},
      {"and what comes of it later counts no more",
       2,
       2,
       {{0, 2}, {0, 3}, {0, 2}, {0, 3}},
       {kOut, kIn, kIn, kIn}},
      {"decode nodes that fail take no prefill node along",
       2,
       4,
       {{0, 2}, {1, 2}, {0, 2}, {0, 3}, {1, 3}},
       {kIn, kIn, kOut, kOut, kIn, kIn}},
      {"old reports do not count", 2, 1, {{0, 2}, {0, 0, kWait}, {1, 2}}, {kIn, kIn, kIn}},
      {"nor those of a pair that worked since",
       2,
       1,
       {{0, 2}, {0, 2, kReached}, {1, 2}},
       {kIn, kIn, kIn}},
      {"another pair that worked says nothing of this one",
       2,
       2,
       {{0, 2}, {0, 3, kReached}, {1, 3, kReached}, {1, 2}},
       {kIn, kIn, kOut, kIn}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.situation);
    FakeClock clock;
    std::vector<std::unique_ptr<FakeNode>> fakes;
    std::vector<NodeAddress> addresses;
    for (int i = 0; i < c.prefill_nodes + c.decode_nodes; ++i) {
      fakes.push_back(std::make_unique<FakeNode>(i < c.prefill_nodes ? v1::NODE_ROLE_PREFILL
                                                                     : v1::NODE_ROLE_DECODE));
      addresses.push_back({fakes.back()->address()});
    }
    Membership nodes(addresses, {.unreachable_seconds = 10}, clock);
    nodes.Poll();
    for (const Step& step : c.steps) {
      if (step.what == kWait) {
        clock.AdvanceSeconds(10.1);
      } else if (step.what == kReached) {
        nodes.ReportReached(step.prefill, step.decode);
      } else {
        nodes.ReportUnreachable(step.prefill, step.decode, absl::UnavailableError("no answer"));
      }
    }
    EXPECT_EQ(Usable(nodes), c.usable);
  }
}

TEST(MembershipTest, TellsWhichPairsDidNotWorkOfLate) {
  FakeClock clock;
  FakeNode first(v1::NODE_ROLE_PREFILL), second(v1::NODE_ROLE_PREFILL), third(v1::NODE_ROLE_DECODE),
      fourth(v1::NODE_ROLE_DECODE);
  Membership nodes({{first.address()}, {second.address()}, {third.address()}, {fourth.address()}},
                   {.unreachable_seconds = 10}, clock);
  nodes.Poll();
  nodes.ReportUnreachable(0, 2, absl::UnavailableError("no answer"));
  nodes.ReportUnreachable(1, 3, absl::UnavailableError("no answer"));
  EXPECT_THAT(nodes.OutOfReachFor(2), ElementsAre(0));
  EXPECT_THAT(nodes.OutOfReachFor(3), ElementsAre(1));
  nodes.ReportReached(0, 2);
  EXPECT_THAT(nodes.OutOfReachFor(2), ElementsAre());
  clock.AdvanceSeconds(10.1);
  EXPECT_THAT(nodes.OutOfReachFor(3), ElementsAre());
}

TEST(MembershipTest, TellsWhenServingChanges) {
  FakeNode node(v1::NODE_ROLE_MIXED);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> told;
  Membership nodes({{node.address()}}, {.poll_seconds = 0.01, .leave_out_seconds = 0.01},
                   Clock::Real());
  nodes.Start([&](bool serving) {
    std::lock_guard lock(mutex);
    told.push_back(serving);
    changed.notify_all();
  });
  const auto wait_for = [&](size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return told.size() >= count; });
  };
  wait_for(2);
  nodes.ReportFailure(0, absl::UnavailableError("draining"));
  wait_for(4);
  node.Stop();
  wait_for(5);
  std::lock_guard lock(mutex);
  EXPECT_THAT(told, ElementsAre(false, true, false, true, false));
}

}  // namespace
}  // namespace headway
