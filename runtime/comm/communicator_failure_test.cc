#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/clock.h"
#include "runtime/comm/communicator_harness.h"
#include "runtime/comm/local_communicator.h"
#include "runtime/comm/segment.h"
#include "runtime/comm/shm_communicator.h"

namespace headway {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Conformance of every form of communicator: what happens when something goes wrong. A program's
// answer is the status that its collective ended with.
class CommunicatorFailureTest : public testing::TestWithParam<RankForm> {};

INSTANTIATE_TEST_SUITE_P(Forms, CommunicatorFailureTest, testing::ValuesIn(kRankForms),
                         [](const auto& info) { return testing::PrintToString(info.param); });

constexpr absl::Duration kLong = absl::Seconds(60);  // tests that reach it have failed
constexpr absl::Duration kShort = absl::Milliseconds(80);

// A further call of any kind returns the same error as `first`.
std::string ThenDead(Communicator& comm, const absl::Status& first) {
  std::byte bytes[4] = {};
  const std::vector<int64_t> sizes(static_cast<size_t>(comm.size()), 0);
  for (const absl::Status& status :
       {comm.Barrier(), comm.Broadcast(0, bytes), comm.Gather(-1, {}, sizes, nullptr),
        comm.AllToAll({}, sizes, nullptr, sizes)}) {
    if (status != first)
      return absl::StrCat("first ", first.ToString(), ", then ", status.ToString());
  }
  return first.ToString();
}

TEST_P(CommunicatorFailureTest, AbortWakesThoseWhoWait) {
  static std::byte bytes[9];
  const std::vector<int64_t> sizes = {2, 2, 2};
  const std::function<absl::Status(Communicator&)> collectives[] = {
      [](Communicator& comm) { return comm.Barrier(); },
      [](Communicator& comm) { return comm.Broadcast(2, bytes); },
      [&](Communicator& comm) { return comm.Gather(-1, std::span(bytes, 2), sizes, bytes); },
      [&](Communicator& comm) { return comm.AllToAll(std::span(bytes, 6), sizes, bytes, sizes); },
  };
  for (const auto& collective : collectives) {
    const auto answers = RunRanks(GetParam(), 3, kLong, [&](Communicator& comm) {
      for (int i = 0; i < 3; ++i) {
        if (absl::Status s = comm.Barrier(); !s.ok()) return s.ToString();
      }
      if (comm.rank() == 2) {
        comm.Abort("rank 2 has had enough");
        comm.Abort("a later reason is not heard");
      }
      return ThenDead(comm, collective(comm));
    });
    EXPECT_THAT(answers, Each("ABORTED: rank 2 has had enough"));
  }
}

TEST_P(CommunicatorFailureTest, AbortFromAnotherThreadWakesASleeper) {
  const int64_t start = Clock::Real().NowNanos();
  SharedPage page;
  auto& done = page.As<std::atomic<int>>();
  const auto answers = RunRanks(GetParam(), 2, kLong, [&](Communicator& comm) {
    if (comm.rank() == 0) {  // an idle leader
      while (done == 0) std::this_thread::yield();
      return ThenDead(comm, comm.Barrier());
    }
    std::thread watchdog([&] { comm.Abort("stopped from outside"); });
    std::byte bytes[3];
    const absl::Status status = comm.Broadcast(0, bytes);
    watchdog.join();
    ++done;
    return ThenDead(comm, status);
  });
  EXPECT_THAT(answers, Each("ABORTED: stopped from outside"));
  EXPECT_LT(Clock::Real().NowNanos() - start, 10'000'000'000);
}

TEST_P(CommunicatorFailureTest, AMissingPeerIsNamedAfterTheTimeout) {
  SharedPage page;
  auto& done = page.As<std::atomic<int>>();
  const auto answers = RunRanks(GetParam(), 3, kShort, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      while (done < 2) std::this_thread::yield();  // a hung rank
      return ThenDead(comm, comm.Barrier());       // is told when it comes back
    }
    const std::string answer = ThenDead(comm, comm.Barrier());
    ++done;
    return answer;
  });
  EXPECT_THAT(answers, Each(AllOf(StartsWith("DEADLINE_EXCEEDED: barrier: rank 1 of 3 did not "
                                             "arrive within 80ms"))));
}

// Rank 2 waits for rank 1, which waits for rank 0 in an earlier collective: rank 0 is missing.
TEST_P(CommunicatorFailureTest, TheRankFurthestBehindIsNamed) {
  SharedPage page;
  auto& done = page.As<std::atomic<int>>();
  const auto answers = RunRanks(GetParam(), 3, kShort, [&](Communicator& comm) {
    std::byte byte{};
    const std::vector<int64_t> sizes = {1, 1, 1};
    if (comm.rank() == 0) {
      while (done < 2) std::this_thread::yield();
      return comm.Barrier().ToString();
    }
    std::byte all[3];
    // The gather to rank 1 does not hold rank 2 back; the barrier after it does.
    absl::Status status = comm.Gather(1, {&byte, 1}, sizes, all);
    if (status.ok()) status = comm.Barrier();
    ++done;
    return status.ToString();
  });
  EXPECT_THAT(answers, Each(HasSubstr("rank 0 of 3 did not arrive")));
}

TEST_P(CommunicatorFailureTest, AnIdleBroadcastOutlastsTheTimeoutAsleep) {
  const auto answers = RunRanks(GetParam(), 3, kShort, [](Communicator& comm) -> std::string {
    std::byte byte{};
    if (comm.rank() == 0) {
      // Sleeps: what the others do meanwhile, and that it outlasts the timeout, is what is tested.
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
      byte = std::byte{42};
    }
    timespec before, after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    if (absl::Status s = comm.Broadcast(0, {&byte, 1}); !s.ok()) return s.ToString();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    const int64_t burnt =
        (after.tv_sec - before.tv_sec) * 1'000'000'000 + (after.tv_nsec - before.tv_nsec);
    if (burnt > 25'000'000) return absl::StrCat(burnt, " ns of a core to wait 250 ms");
    return byte == std::byte{42} ? "" : "wrong byte";
  });
  EXPECT_THAT(answers, Each(""));
}

TEST_P(CommunicatorFailureTest, APeerThatLeftIsNamed) {
  const auto answers = RunRanks(GetParam(), 3, kLong, [](Communicator& comm) {
    if (absl::Status s = comm.Barrier(); !s.ok()) return s.ToString();
    if (comm.rank() == 2) return std::string();  // its communicator is destroyed
    return ThenDead(comm, comm.Barrier());
  });
  EXPECT_THAT(answers, ElementsAre("UNAVAILABLE: barrier: rank 2 of 3 has left",
                                   "UNAVAILABLE: barrier: rank 2 of 3 has left", ""));
}

// What a leaving rank gave before it left still arrives.
TEST_P(CommunicatorFailureTest, LeavingAfterTheLastCollectiveIsNoFailure) {
  for (int i = 0; i < 20; ++i) {
    const auto answers = RunRanks(GetParam(), 3, kLong, [](Communicator& comm) -> std::string {
      std::byte byte{comm.rank() == 0};
      if (absl::Status s = comm.Broadcast(0, {&byte, 1}); !s.ok()) return s.ToString();
      return byte == std::byte{1} ? "" : "wrong byte";
    });
    ASSERT_THAT(answers, Each(""));
  }
}

TEST_P(CommunicatorFailureTest, RanksOutOfStepAreNamed) {
  const auto ops = RunRanks(GetParam(), 2, kLong, [](Communicator& comm) {
    const std::vector<int64_t> sizes = {0, 0};
    return ThenDead(comm, comm.rank() == 0 ? comm.Barrier() : comm.Gather(-1, {}, sizes, nullptr));
  });
  EXPECT_THAT(ops, Each(AllOf(StartsWith("INTERNAL: ranks are out of step: "), HasSubstr("barrier"),
                              HasSubstr("gather"))));
  const auto sizes = RunRanks(GetParam(), 2, kLong, [](Communicator& comm) {
    std::vector<std::byte> bytes(comm.rank() == 0 ? 8 : 9);
    absl::Status status = comm.Broadcast(0, bytes);
    if (status.ok()) status = comm.Barrier();  // the root need not wait to be read
    return ThenDead(comm, status);
  });
  EXPECT_THAT(sizes, Each(StartsWith("INTERNAL: ranks are out of step: rank 0 does a broadcast "
                                     "(root 0) of 8 bytes where rank 1 does a broadcast (root 0) "
                                     "of 9")));
}

TEST_P(CommunicatorFailureTest, BadArgumentsEndTheCommunicator) {
  struct Case {
    std::function<absl::Status(Communicator&)> call;
    const char* text;
  };
  static std::byte bytes[8];
  const std::vector<int64_t> two = {1, 1}, three = {1, 1, 1}, negative = {-1, 1};
  const Case cases[] = {
      {[](Communicator& c) { return c.Broadcast(2, bytes); },
       "broadcast: root 2 is not among 2 ranks"},
      {[](Communicator& c) { return c.Broadcast(-1, bytes); },
       "broadcast: root -1 is not among 2 ranks"},
      {[&](Communicator& c) { return c.Gather(2, std::span(bytes, 1), two, bytes); },
       "gather: root 2 is not among 2 ranks"},
      {[&](Communicator& c) { return c.Gather(-1, std::span(bytes, 1), three, bytes); },
       "gather: sizes of 3 ranks, there are 2"},
      {[&](Communicator& c) { return c.Gather(-1, std::span(bytes, 1), negative, bytes); },
       "gather: sizes hold -1, which is below 0"},
      {[&](Communicator& c) { return c.Gather(-1, std::span(bytes, 2), two, bytes); },
       "gather: rank 0 brings 2 bytes, sizes say 1"},
      {[&](Communicator& c) { return c.AllToAll(std::span(bytes, 3), two, bytes, two); },
       "all-to-all: rank 0 brings 3 bytes (1 for itself), sizes say 2 (1)"},
      {[&](Communicator& c) { return c.AllToAll(std::span(bytes, 2), two, bytes, negative); },
       "all-to-all: receive sizes hold -1, which is below 0"},
  };
  for (const Case& c : cases) {
    const auto answers = RunRanks(GetParam(), 2, kLong, [&](Communicator& comm) {
      return ThenDead(comm, comm.rank() == 0 ? c.call(comm) : comm.Barrier());
    });
    EXPECT_THAT(answers, Each(absl::StrCat("INVALID_ARGUMENT: ", c.text)));
  }
}

// A killed process says nothing. Its peers notice by its pid, though nobody has waited for it yet.
TEST(ShmCommunicatorTest, AKilledRankIsNamedWithinASecond) {
  for (bool idle : {false, true}) {
    const int64_t start = Clock::Real().NowNanos();
    SharedPage page;
    auto& done = page.As<std::atomic<int>>();
    const auto answers = RunRanks(RankForm::kShmProcesses, 3, kLong, [&](Communicator& comm) {
      if (absl::Status s = comm.Barrier(); !s.ok()) return s.ToString();
      if (comm.rank() == 1) raise(SIGKILL);
      std::byte byte{};
      absl::Status status;
      if (idle && comm.rank() == 2) {
        status = comm.Broadcast(0, {&byte, 1});  // waits for rank 0, and that alone
        ++done;
      } else {
        while (idle && done == 0) std::this_thread::yield();
        status = comm.Barrier();
      }
      return ThenDead(comm, status);
    });
    EXPECT_THAT(answers[0], AllOf(StartsWith("UNAVAILABLE: "), HasSubstr("rank 1 of 3 (process "),
                                  HasSubstr(" died")));
    EXPECT_EQ(answers[2], answers[0]);
    EXPECT_EQ(answers[1], kKilled);
    EXPECT_LT(Clock::Real().NowNanos() - start, 3'000'000'000);
  }
}

TEST(ShmCommunicatorTest, ARankThatNeverJoinsIsNamedAlsoByABroadcast) {
  const int fd = *NewShmSegment(2);
  auto comm = NewShmCommunicator({.rank = 1, .size = 2, .fd = fd, .timeout = kShort});
  close(fd);
  ASSERT_TRUE(comm.ok()) << comm.status();
  std::byte byte{};
  EXPECT_EQ((*comm)->Broadcast(0, {&byte, 1}),
            absl::DeadlineExceededError(
                "broadcast: rank 0 of 2 has not joined within 80ms, rank 1 waited"));
}

TEST(ShmCommunicatorTest, JoiningRefusesWhatDoesNotFit) {
  const int fd = *NewShmSegment(2);
  const auto join = [](int rank, int size, int fd) {
    return NewShmCommunicator({.rank = rank, .size = size, .fd = fd}).status();
  };
  EXPECT_EQ(NewShmSegment(0).status().message(), "communicator of 0 ranks: 1 to 16 are possible");
  EXPECT_EQ(NewShmSegment(17).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(join(0, 17, fd).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(join(2, 2, fd).message(), "communicator: rank 2 is not among 2");
  EXPECT_EQ(join(-1, 2, fd).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(join(0, 3, fd).code(), absl::StatusCode::kInvalidArgument);  // too small a segment
  EXPECT_EQ(join(0, 2, -1).code(), absl::StatusCode::kInternal);
  const int other = memfd_create("other", 0);
  ASSERT_EQ(ftruncate(other, ShmSegmentBytes(2)), 0);
  EXPECT_EQ(join(0, 2, other).message(), "communicator segment: not one of this version and size");
  close(other);
  const auto first = NewShmCommunicator({.rank = 0, .size = 2, .fd = fd});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(join(0, 2, fd).code(), absl::StatusCode::kAlreadyExists);
  close(fd);
}

}  // namespace
}  // namespace headway
