// A rank that follows, against a leader that this test plays.
#include "runtime/node/rank_worker.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "gmock/gmock.h"
#include "runtime/base/clock.h"
#include "runtime/comm/local_communicator.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

using ::testing::HasSubstr;

class RankWorkerTest : public ::testing::Test {
 protected:
  RankWorkerTest() {
    checkpoint_ = *Checkpoint::Open(GoldenPath("models/llama_gqa_9_3"));
    EngineOptions options;
    options.kv_blocks = 8;
    options.limits = {.max_rows = 16, .max_logit_rows = 8, .max_positions = 64};
    for (int rank = 0; rank < 2; ++rank) {
      engines_.push_back(*RankEngine::Create(*checkpoint_, options, *comms_[rank]));
      workers_.push_back(
          std::make_unique<RankWorker>(*engines_[rank], *comms_[rank], nullptr, Clock::Real()));
    }
  }

  // What rank 1's Follow returns, and what rank 0 sees in the exchange after `lead`.
  struct Ends {
    absl::Status followed, led;
  };
  template <class Lead>
  Ends Follow(Lead lead) {
    Ends ends;
    std::thread follower([&] { ends.followed = workers_[1]->Follow(); });
    ends.led = lead();
    if (ends.led.ok()) ends.led = comms_[0]->Barrier();
    follower.join();
    return ends;
  }

  // A message in the form of RankWorker: a count of bytes, then they, in a frame of 4096.
  absl::Status Send(uint64_t size, std::span<const std::byte> bytes) {
    std::vector<std::byte> frame(4096);
    std::memcpy(frame.data(), &size, sizeof(size));
    std::copy(bytes.begin(), bytes.end(), frame.begin() + sizeof(size));
    return comms_[0]->Broadcast(0, frame);
  }

  std::unique_ptr<Checkpoint> checkpoint_;
  std::vector<std::unique_ptr<Communicator>> comms_ = NewLocalCommunicators(2);
  std::vector<std::unique_ptr<RankEngine>> engines_;
  std::vector<std::unique_ptr<RankWorker>> workers_;
};

void ExpectReleased(const absl::Status& followed, const absl::Status& led, const char* text) {
  EXPECT_THAT(std::string(followed.message()), HasSubstr(text));
  // Told by the rank, not found out by waiting.
  EXPECT_EQ(led.code(), absl::StatusCode::kAborted) << led;
  EXPECT_THAT(std::string(led.message()), HasSubstr("rank 1: "));
  EXPECT_THAT(std::string(led.message()), HasSubstr(text));
}

TEST_F(RankWorkerTest, ACommandThatCannotBeReadReleasesTheOthers) {
  const std::vector<std::byte> noise(100, std::byte{0xa5});
  const Ends ends = Follow([&] { return Send(noise.size(), noise); });
  ExpectReleased(ends.followed, ends.led, "cut short");
}

TEST_F(RankWorkerTest, ACommandOfAbsurdLengthReleasesTheOthers) {
  const Ends ends = Follow([&] { return Send(uint64_t{1} << 60, {}); });
  ExpectReleased(ends.followed, ends.led, "1152921504606846976 bytes");
}

TEST_F(RankWorkerTest, ASpanWithoutItsTableReleasesTheOthers) {
  RankCommand command;
  command.spans = {{.slot = 3, .count = 1}};
  command.tokens = {5};
  std::vector<std::byte> bytes;
  EncodeCommand(command, bytes);
  const Ends ends = Follow([&] { return Send(bytes.size(), bytes); });
  ExpectReleased(ends.followed, ends.led, "block table has 0 blocks");
}

TEST_F(RankWorkerTest, LimitsAreThoseOfTheEngine) {
  for (const auto& worker : workers_) {
    EXPECT_EQ(worker->limits().rows, 16);
    EXPECT_EQ(worker->limits().blocks, 8);
    EXPECT_EQ(worker->limits().sequences, 8);  // each has a block at least
  }
}

TEST_F(RankWorkerTest, StopsWhenTold) {
  absl::Status followed = absl::UnknownError("not yet");
  std::thread follower([&] { followed = workers_[1]->Follow(); });
  RankCommand stop;
  stop.stop = true;
  EXPECT_TRUE(workers_[0]->Lead(stop, nullptr).ok());
  follower.join();
  EXPECT_TRUE(followed.ok()) << followed;
}

}  // namespace
}  // namespace headway
