#include "runtime/transfer/kv_sender.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/hash.h"
#include "runtime/transfer/kv_message.h"
#include "runtime/transfer/testing.h"

namespace headway {
namespace {

using testing::HasSubstr;

constexpr int kLayers = 3, kHeads = 2, kHeadDim = 8, kBlocks = 40;

// Keeps what is sent, and ends messages when the test says so.
class PuppetTransport : public Transport {
 public:
  struct Sent {
    std::string peer;
    std::vector<std::byte> header, payload;
    Done done;
    KvMessage message() const { return *DecodeKvMessage(header, payload); }
  };

  std::string address() const override { return "puppet"; }
  void SetReceiver(Receiver) override {}
  void SendPieces(const std::string& peer_address, std::span<const std::byte> header,
                  std::span<const std::span<const std::byte>> pieces, Done done) override {
    {
      std::unique_lock lock(mutex_);
      entered_ = true;
      released_.wait(lock, [&] { return !held_; });
    }
    auto sent = std::make_unique<Sent>();
    sent->peer = peer_address;
    sent->header.assign(header.begin(), header.end());
    for (auto piece : pieces) {
      sent->payload.insert(sent->payload.end(), piece.begin(), piece.end());
    }
    bool at_once;
    {
      std::lock_guard lock(mutex_);
      at_once = finish_at_once_;
      if (!at_once) sent->done = std::move(done);
      sent_.push_back(std::move(sent));
    }
    if (at_once) done(absl::OkStatus());
  }

  void FinishAtOnce() {
    std::lock_guard lock(mutex_);
    finish_at_once_ = true;
  }
  // Keeps whoever sends before it has read the payload.
  void Hold() {
    std::lock_guard lock(mutex_);
    held_ = true;
  }
  void Release() {
    std::lock_guard lock(mutex_);
    held_ = false;
    released_.notify_all();
  }
  bool entered() {
    std::lock_guard lock(mutex_);
    return entered_;
  }
  size_t count() {
    std::lock_guard lock(mutex_);
    return sent_.size();
  }
  const Sent& at(size_t i) {
    std::lock_guard lock(mutex_);
    return *sent_.at(i);
  }
  void Finish(size_t i, const absl::Status& status = absl::OkStatus()) {
    Done done;
    {
      std::lock_guard lock(mutex_);
      done = std::exchange(sent_.at(i)->done, nullptr);
    }
    ASSERT_TRUE(done);
    done(status);
  }

 private:
  std::mutex mutex_;
  std::condition_variable released_;
  bool finish_at_once_ = false;
  bool held_ = false;
  bool entered_ = false;
  std::deque<std::unique_ptr<Sent>> sent_;
};

class KvSenderTest : public testing::Test {
 protected:
  KvSenderTest() : cache_(kLayers, kHeads, kHeadDim, kBlocks) {
    std::mt19937_64 random(3);
    for (std::byte& b : cache_.memory()) b = static_cast<std::byte>(random());
    Restart();
  }

  void Restart() {
    sender_.reset();
    sender_ = KvSender::Create(transport_, cache_.layers(), clock_, "prefill-3/rank-0");
  }

  SendTask Task(uint64_t id, int blocks) const {
    SendTask task = {
        .reservation_id = id,
        .epoch = 6,
        .routes = {{.kv_head = 10, .source_head = 0, .target_rank = 1, .target_head = 2},
                   {.kv_head = 11, .source_head = 1, .target_rank = 0, .target_head = 3}},
        .peer_addresses = {"zero", "one"},
        .deadline_nanos = 1'000'000'000};
    for (int i = 0; i < blocks; ++i) task.block_table.push_back((i * 7 + 3) % kBlocks);
    return task;
  }

  bool Sends(size_t messages) {
    return Eventually([&] { return transport_.count() >= messages; });
  }
  bool Done(uint64_t id) {
    return Eventually([&] { return sender_->Poll(id).done; });
  }

  FakeClock clock_;
  TestCache cache_;
  PuppetTransport transport_;
  std::unique_ptr<KvSender> sender_;
};

TEST_F(KvSenderTest, ALayerGoesToEveryRoute) {
  const SendTask task = Task(8, 5);
  ASSERT_TRUE(sender_->Begin(task).ok());
  EXPECT_TRUE(sender_->Poll(8).done);
  sender_->OnLayerReady(8, 2, 1, 4);
  ASSERT_TRUE(Sends(2));
  EXPECT_FALSE(sender_->Poll(8).done);
  std::vector<RankManifest> parts(2);
  for (int i = 0; i < 2; ++i) {
    const PuppetTransport::Sent& sent = transport_.at(i);
    const HeadRoute& route = task.routes[i];
    EXPECT_EQ(sent.peer, task.peer_addresses[route.target_rank]);
    const KvMessage message = sent.message();
    EXPECT_EQ(message.header.reservation_id, 8u);
    EXPECT_EQ(message.header.epoch, 6u);
    EXPECT_EQ(message.header.layer, 2u);
    EXPECT_EQ(static_cast<int>(message.header.kv_head), route.kv_head);
    EXPECT_EQ(static_cast<int>(message.header.target_head), route.target_head);
    EXPECT_EQ(message.header.first_block, 1u);
    EXPECT_EQ(message.header.runs, 3u);
    EXPECT_EQ(message.source(), "prefill-3/rank-0");
    for (int run = 0; run < 3; ++run) {
      const auto bytes = cache_.Run(2, route.source_head, task.block_table[1 + run]);
      EXPECT_TRUE(std::ranges::equal(message.run(run), bytes));
      EXPECT_EQ(message.digest(run), Hash64(bytes));
      parts[route.target_rank].Add(2, route.kv_head, 1 + run, Hash64(bytes));
    }
  }
  transport_.Finish(0);
  EXPECT_FALSE(sender_->Poll(8).done);
  transport_.Finish(1);
  ASSERT_TRUE(Done(8));
  const SendState state = sender_->Poll(8);
  EXPECT_TRUE(state.status.ok());
  EXPECT_EQ(state.parts, parts);
  EXPECT_EQ(state.bytes, 6 * cache_.layers()[0].RunBytes());
}

TEST_F(KvSenderTest, EachBlockOnceHoweverItIsAnnounced) {
  transport_.FinishAtOnce();
  SendTask task = Task(8, 12);
  task.first_block = 2;
  ASSERT_TRUE(sender_->Begin(task).ok());
  for (auto [begin, end] : {std::pair(0, 5), {3, 7}, {7, 7}, {9, 11}, {0, 12}, {0, 12}}) {
    sender_->OnLayerReady(8, 1, begin, end);
  }
  ASSERT_TRUE(Done(8));
  std::map<std::pair<int, int>, int> sent;  // (head, block)
  for (size_t i = 0; i < transport_.count(); ++i) {
    const KvMessage message = transport_.at(i).message();
    for (uint32_t run = 0; run < message.header.runs; ++run) {
      ++sent[{message.header.kv_head, message.header.first_block + run}];
    }
  }
  std::map<std::pair<int, int>, int> expected;
  for (int head : {10, 11}) {
    for (int block = 2; block < 12; ++block) expected[{head, block}] = 1;
  }
  EXPECT_EQ(sent, expected);
  EXPECT_EQ(sender_->Poll(8).parts[0].runs, 10);
}

TEST_F(KvSenderTest, LongRangesAreCutIntoMessages) {
  transport_.FinishAtOnce();
  // Runs so large that few fit a message.
  TestCache large(1, 1, 512, 20);
  KvSender::Create(transport_, large.layers(), clock_).swap(sender_);
  SendTask task = {.reservation_id = 1,
                   .routes = {{}},
                   .peer_addresses = {"zero"},
                   .deadline_nanos = 1'000'000'000};
  for (int i = 0; i < 20; ++i) task.block_table.push_back(i);
  const int most = KvMessageRuns(large.layers()[0].RunBytes());
  ASSERT_EQ(most, 8);
  ASSERT_TRUE(sender_->Begin(task).ok());
  sender_->OnLayerReady(1, 0, 0, 20);
  ASSERT_TRUE(Done(1));
  ASSERT_EQ(transport_.count(), 3u);
  EXPECT_EQ(transport_.at(0).message().header.runs, 8u);
  EXPECT_EQ(transport_.at(1).message().header.runs, 8u);
  EXPECT_EQ(transport_.at(2).message().header.runs, 4u);
  EXPECT_EQ(transport_.at(2).message().header.first_block, 16u);
  EXPECT_TRUE(std::ranges::equal(transport_.at(1).message().run(3), large.Run(0, 0, 11)));
  sender_.reset();  // before the cache
}

TEST_F(KvSenderTest, NothingIsSentAfterTheDeadline) {
  transport_.FinishAtOnce();
  ASSERT_TRUE(sender_->Begin(Task(8, 4)).ok());
  sender_->OnLayerReady(8, 0, 0, 4);
  ASSERT_TRUE(Done(8));
  const SendState before = sender_->Poll(8);
  EXPECT_TRUE(before.status.ok());
  clock_.AdvanceSeconds(1);
  // What was sent in time stays well.
  EXPECT_TRUE(sender_->Poll(8).status.ok());
  const size_t sent = transport_.count();
  sender_->OnLayerReady(8, 1, 0, 4);
  // Another task shows that the thread has come past, without asking for the first one's state.
  SendTask later = Task(9, 4);
  later.deadline_nanos *= 10;
  ASSERT_TRUE(sender_->Begin(later).ok());
  sender_->OnLayerReady(9, 1, 0, 4);
  ASSERT_TRUE(Done(9));
  EXPECT_EQ(transport_.count(), sent + 2);
  EXPECT_EQ(transport_.at(sent).message().header.reservation_id, 9u);
  EXPECT_EQ(transport_.at(sent + 1).message().header.reservation_id, 9u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(sender_->Poll(8).status)) << sender_->Poll(8).status;
  EXPECT_TRUE(sender_->Poll(8).done);
  EXPECT_EQ(sender_->Poll(8).parts, before.parts);
}

TEST_F(KvSenderTest, TheDeadlineEndsATaskWhosePeerTakesNothing) {
  // More than may be outstanding.
  TestCache large(1, 1, 512, 400);
  KvSender::Create(transport_, large.layers(), clock_).swap(sender_);
  SendTask stuck = {.reservation_id = 1,
                    .routes = {{}},
                    .peer_addresses = {"stuck"},
                    .deadline_nanos = 1'000'000'000};
  for (int i = 0; i < 400; ++i) stuck.block_table.push_back(i);
  SendTask other = stuck;
  other.reservation_id = 2;
  other.peer_addresses = {"other"};
  other.block_table.resize(16);
  ASSERT_TRUE(sender_->Begin(stuck).ok());
  ASSERT_TRUE(sender_->Begin(other).ok());
  sender_->OnLayerReady(1, 0, 0, 400);
  const size_t room = (8 << 20) / kMaxKvMessageBytes;
  ASSERT_TRUE(Sends(room));
  // Another task is not held up.
  sender_->OnLayerReady(2, 0, 0, 16);
  ASSERT_TRUE(Sends(room + 2));
  EXPECT_EQ(transport_.at(room).peer, "other");
  EXPECT_EQ(transport_.at(room + 1).peer, "other");
  EXPECT_FALSE(sender_->Poll(1).done);
  // Room makes it go on.
  transport_.Finish(0);
  ASSERT_TRUE(Sends(room + 3));
  EXPECT_EQ(transport_.at(room + 2).peer, "stuck");

  clock_.AdvanceSeconds(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(sender_->Poll(1).status));
  EXPECT_TRUE(sender_->Poll(2).status.ok());
  EXPECT_FALSE(sender_->Poll(1).done);  // messages are still under way
  for (size_t i = 1; i < room + 3; ++i) transport_.Finish(i);
  EXPECT_TRUE(Done(1));
  EXPECT_EQ(transport_.count(), room + 3);
  sender_.reset();
}

TEST_F(KvSenderTest, TheFirstFailureEndsTheTask) {
  ASSERT_TRUE(sender_->Begin(Task(8, 4)).ok());
  sender_->OnLayerReady(8, 0, 0, 4);
  ASSERT_TRUE(Sends(2));
  transport_.Finish(1, absl::UnavailableError("peer is gone"));
  transport_.Finish(0, absl::UnknownError("later"));
  EXPECT_TRUE(Done(8));
  const SendState state = sender_->Poll(8);
  EXPECT_TRUE(absl::IsUnavailable(state.status));
  EXPECT_THAT(std::string(state.status.message()), HasSubstr("peer is gone"));
  EXPECT_THAT(std::string(state.status.message()), HasSubstr("to rank 0"));
  sender_->OnLayerReady(8, 1, 0, 4);
  EXPECT_TRUE(sender_->Poll(8).done);
  EXPECT_EQ(transport_.count(), 2u);
}

// Whoever returns from End owns the blocks: no message has what this thread writes afterwards, and
// under ThreadSanitizer nobody else reads it.
TEST_F(KvSenderTest, EndReturnsTheBlocks) {
  transport_.FinishAtOnce();
  constexpr int kLarge = 8;  // blocks, of 32 KiB so that reading them takes a while
  TestCache large(1, 1, 512, kLarge);
  KvSender::Create(transport_, large.layers(), clock_).swap(sender_);
  std::mt19937_64 random(1);
  for (uint64_t id = 1; id <= 200; ++id) {
    std::ranges::fill(large.memory(), static_cast<std::byte>(id));
    SendTask task = {.reservation_id = id,
                     .routes = {{}},
                     .peer_addresses = {"zero"},
                     .deadline_nanos = 1'000'000'000};
    for (int i = 0; i < kLarge; ++i) task.block_table.push_back(i);
    ASSERT_TRUE(sender_->Begin(task).ok());
    sender_->OnLayerReady(id, 0, 0, kLarge);
    const int64_t until = Clock::Real().NowNanos() + static_cast<int64_t>(random() % 200'000);
    while (Clock::Real().NowNanos() < until) {
    }
    sender_->End(id);
    const size_t sent = transport_.count();
    std::ranges::fill(large.memory(), std::byte{255});
    sender_->OnLayerReady(id, 0, 0, kLarge);
    EXPECT_TRUE(absl::IsNotFound(sender_->Poll(id).status));
    EXPECT_EQ(transport_.count(), sent);
  }
  sender_->End(12345);
  sender_.reset();
  for (size_t i = 0; i < transport_.count(); ++i) {
    const KvMessage message = transport_.at(i).message();
    const std::byte expected = static_cast<std::byte>(message.header.reservation_id);
    ASSERT_TRUE(std::ranges::all_of(message.payload, [&](std::byte b) { return b == expected; }));
    ASSERT_EQ(Hash64(message.run(0)), message.digest(0));
  }
}

TEST_F(KvSenderTest, EndWaitsForTheMessageThatIsBeingRead) {
  transport_.FinishAtOnce();
  ASSERT_TRUE(sender_->Begin(Task(8, 4)).ok());
  transport_.Hold();
  sender_->OnLayerReady(8, 0, 0, 4);
  ASSERT_TRUE(Eventually([&] { return transport_.entered(); }));
  std::atomic<bool> released = false, returned = false, in_order = false;
  std::thread end([&] {
    sender_->End(8);
    in_order = released.load();
    returned = true;
  });
  // Time enough for an End that does not wait.
  const int64_t until = Clock::Real().NowNanos() + 20'000'000;
  Eventually([&] { return returned || Clock::Real().NowNanos() > until; });
  released = true;
  transport_.Release();
  end.join();
  EXPECT_TRUE(in_order);
  EXPECT_EQ(transport_.count(), 1u);  // the second route's message is not sent any more
}

TEST_F(KvSenderTest, CallbacksMayComeAfterEndAndAfterTheSender) {
  ASSERT_TRUE(sender_->Begin(Task(8, 4)).ok());
  sender_->OnLayerReady(8, 0, 0, 4);
  ASSERT_TRUE(Sends(2));
  sender_->End(8);
  transport_.Finish(0);
  ASSERT_TRUE(sender_->Begin(Task(8, 4)).ok());
  EXPECT_TRUE(sender_->Poll(8).done);
  sender_.reset();
  transport_.Finish(1, absl::UnavailableError("late"));
}

TEST_F(KvSenderTest, ARankWithoutRoutesIsDone) {
  SendTask task = Task(8, 4);
  task.routes.clear();
  ASSERT_TRUE(sender_->Begin(task).ok());
  sender_->OnLayerReady(8, 0, 0, 4);
  EXPECT_TRUE(sender_->Poll(8).done);
  EXPECT_EQ(sender_->Poll(8).parts, std::vector<RankManifest>(2));
}

TEST_F(KvSenderTest, WhatDoesNotFitIsRefused) {
  auto code = [&](auto change) {
    SendTask task = Task(8, 4);
    change(task);
    return sender_->Begin(task).code();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code([](SendTask& t) { t.routes[0].target_rank = 2; }), invalid);
  EXPECT_EQ(code([](SendTask& t) { t.routes[0].target_rank = -1; }), invalid);
  EXPECT_EQ(code([](SendTask& t) { t.routes[1].source_head = kHeads; }), invalid);
  EXPECT_EQ(code([](SendTask& t) { t.block_table[3] = kBlocks; }), invalid);
  EXPECT_EQ(code([](SendTask& t) { t.block_table[0] = -1; }), invalid);
  EXPECT_EQ(code([](SendTask& t) { t.first_block = -1; }), invalid);
  EXPECT_EQ(code([](SendTask&) {}), absl::StatusCode::kOk);
  EXPECT_EQ(code([](SendTask&) {}), absl::StatusCode::kAlreadyExists);
  // Of a task under way: its own end.
  sender_->OnLayerReady(8, kLayers, 0, 4);
  EXPECT_EQ(sender_->Poll(8).status.code(), invalid);
  sender_->End(8);
  ASSERT_EQ(code([](SendTask&) {}), absl::StatusCode::kOk);
  sender_->OnLayerReady(8, 0, 0, 5);
  EXPECT_EQ(sender_->Poll(8).status.code(), invalid);
}

}  // namespace
}  // namespace headway
