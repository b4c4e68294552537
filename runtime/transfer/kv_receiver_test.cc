#include "runtime/transfer/kv_receiver.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "gtest/gtest.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/transfer/kv_message.h"
#include "runtime/transfer/local_transport.h"
#include "runtime/transfer/testing.h"

namespace headway {
namespace {

constexpr int kLayers = 2, kHeads = 2, kHeadDim = 8, kBlocks = 10;
constexpr uint64_t kReservation = 4711, kEpoch = 5;

// A receiver with one open reservation of four blocks, and a peer that sends it what a test says.
class KvReceiverTest : public testing::Test {
 protected:
  KvReceiverTest()
      : cache_(kLayers, kHeads, kHeadDim, kBlocks),
        mine_(hub_.Create()),
        peer_(hub_.Create()),
        receiver_(KvReceiver::Create(*mine_, cache_.layers(),
                                     {.name = "decode-0/rank-1", .kv_heads = {4, 5}})) {
    EXPECT_TRUE(receiver_
                    ->Open({.reservation_id = kReservation,
                            .epoch = kEpoch,
                            .block_table = {7, 2, 3, 9},
                            .first_block = 1})
                    .ok());
  }

  uint32_t run_bytes() const { return cache_.layers()[0].RunBytes(); }

  // A right header for blocks 1 and 2.
  KvWireHeader Header() const {
    return {.layer = 1,
            .reservation_id = kReservation,
            .epoch = kEpoch,
            .kv_head = 5,
            .target_head = 1,
            .first_block = 1,
            .runs = 2,
            .run_bytes = run_bytes()};
  }

  std::vector<std::byte> Payload(const KvWireHeader& header, int sequence = 0) const {
    std::vector<std::byte> payload;
    for (uint32_t run = 0; run < header.runs; ++run) {
      const std::vector<std::byte> bytes = RunPattern(
          header.run_bytes, header.layer, header.kv_head, header.first_block + run, sequence);
      payload.insert(payload.end(), bytes.begin(), bytes.end());
    }
    return payload;
  }

  std::vector<uint64_t> Digests(const KvWireHeader& header,
                                const std::vector<std::byte>& payload) const {
    std::vector<uint64_t> digests;
    for (uint32_t run = 0; run < header.runs; ++run) {
      digests.push_back(
          Hash64(std::span(payload).subspan(run * header.run_bytes, header.run_bytes)));
    }
    return digests;
  }

  void Send(const KvWireHeader& header, const std::vector<std::byte>& payload,
            std::span<const uint64_t> digests) {
    std::vector<std::byte> encoded;
    EncodeKvHeader(header, digests, encoded);
    peer_->Send(mine_->address(), encoded, payload, [this](const absl::Status&) { ++handled_; });
    ++sent_;
  }
  void Send(const KvWireHeader& header, int sequence = 0) {
    const std::vector<std::byte> payload = Payload(header, sequence);
    Send(header, payload, Digests(header, payload));
  }
  // A local transport reports a message when its receiver has seen it.
  void Settle() {
    ASSERT_TRUE(Eventually([&] { return handled_ == sent_; }));
  }

  // Sends what must be refused, and checks that it was and that no byte changed.
  void ExpectRefused(const KvWireHeader& header) {
    const std::vector<std::byte> payload = Payload(header);
    ExpectRefused(header, payload, Digests(header, payload));
  }
  void ExpectRefused(const KvWireHeader& header, const std::vector<std::byte>& payload,
                     std::span<const uint64_t> digests) {
    const std::vector<std::byte> before = cache_.memory();
    const int64_t refused = receiver_->refused_total();
    const ReceiveState state = receiver_->Poll(kReservation);
    Send(header, payload, digests);
    Settle();
    EXPECT_EQ(receiver_->refused_total(), refused + 1);
    EXPECT_TRUE(cache_.memory() == before);
    EXPECT_EQ(receiver_->Poll(kReservation).received, state.received);
    EXPECT_EQ(receiver_->Poll(kReservation).bytes, state.bytes);
  }

  LocalTransportHub hub_;
  TestCache cache_;
  std::unique_ptr<Transport> mine_, peer_;
  std::unique_ptr<KvReceiver> receiver_;
  int sent_ = 0;
  std::atomic<int> handled_ = 0;
};

TEST_F(KvReceiverTest, RunsLandInTheirBlocksAndNowhereElse) {
  std::vector<std::byte> expected = cache_.memory();
  Send(Header());
  Settle();
  RankManifest manifest;
  for (int block : {1, 2}) {
    const std::vector<std::byte> bytes = RunPattern(run_bytes(), 1, 5, block);
    manifest.Add(1, 5, block, Hash64(bytes));
    const int id = block == 1 ? 2 : 3;
    EXPECT_EQ(std::memcmp(cache_.Run(1, 1, id).data(), bytes.data(), bytes.size()), 0);
    const size_t at = cache_.Run(1, 1, id).data() - cache_.memory().data();
    std::copy(bytes.begin(), bytes.end(), expected.begin() + at);
  }
  EXPECT_TRUE(cache_.memory() == expected);
  const ReceiveState state = receiver_->Poll(kReservation);
  EXPECT_EQ(state.received, manifest);
  EXPECT_EQ(state.bytes, 2 * run_bytes());
  EXPECT_EQ(state.refused, 0);
  EXPECT_TRUE(state.status.ok());
}

TEST_F(KvReceiverTest, ASecondCopyIsNeitherWrittenNorCounted) {
  Send(Header());
  Settle();
  const std::vector<std::byte> before = cache_.memory();
  const ReceiveState state = receiver_->Poll(kReservation);
  Send(Header());
  Send(Header(), /*sequence=*/1);  // other bytes with a right digest
  KvWireHeader overlapping = Header();
  overlapping.first_block = 2;  // one old run and one new
  Send(overlapping);
  Settle();
  const ReceiveState after = receiver_->Poll(kReservation);
  EXPECT_EQ(after.received.runs, state.received.runs + 1);
  EXPECT_EQ(after.bytes, state.bytes + run_bytes());
  EXPECT_EQ(receiver_->refused_total(), 0);
  for (int id : {2, 3}) {
    const size_t at = cache_.Run(1, 1, id).data() - cache_.memory().data();
    EXPECT_EQ(std::memcmp(cache_.Run(1, 1, id).data(), before.data() + at, run_bytes()), 0);
  }
}

TEST_F(KvReceiverTest, WhatDoesNotBelongHereIsRefused) {
  struct Case {
    const char* what;
    std::function<void(KvWireHeader&)> change;
    bool of_the_reservation = true;
  };
  const Case cases[] = {
      {"an older epoch", [](KvWireHeader& h) { --h.epoch; }},
      {"a later epoch", [](KvWireHeader& h) { ++h.epoch; }},
      {"another reservation", [](KvWireHeader& h) { ++h.reservation_id; }, false},
      {"a block that is there already", [](KvWireHeader& h) { h.first_block = 0; }},
      {"a block past the end", [](KvWireHeader& h) { h.first_block = 3; }},
      {"a block far past the end", [](KvWireHeader& h) { h.first_block = 0xffffffff; }},
      {"more blocks than there are", [](KvWireHeader& h) { h.runs = 4; }},
      {"a layer that is not there", [](KvWireHeader& h) { h.layer = kLayers; }},
      {"a negative layer", [](KvWireHeader& h) { h.layer = 0xffffffff; }},
      {"a head that is not there", [](KvWireHeader& h) { h.target_head = kHeads; }},
      {"another head's place", [](KvWireHeader& h) { h.target_head = 0; }},
      {"a head of another rank", [](KvWireHeader& h) { h.kv_head = 3; }},
      {"shorter runs", [](KvWireHeader& h) { h.run_bytes /= 2; }},
      {"longer runs", [](KvWireHeader& h) { h.run_bytes *= 2; }},
  };
  int64_t of_the_reservation = 0;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    KvWireHeader header = Header();
    one.change(header);
    ExpectRefused(header);
    of_the_reservation += one.of_the_reservation;
    EXPECT_EQ(receiver_->Poll(kReservation).refused, of_the_reservation);
  }
  // None of that is a loss of data: the right message still comes through.
  EXPECT_TRUE(receiver_->Poll(kReservation).status.ok());
  Send(Header());
  Settle();
  EXPECT_EQ(receiver_->Poll(kReservation).received.runs, 2);
}

TEST_F(KvReceiverTest, AFlippedBitIsDataLossAndNamed) {
  const KvWireHeader header = Header();
  std::vector<std::byte> payload = Payload(header);
  const std::vector<uint64_t> digests = Digests(header, payload);
  payload[run_bytes() + 17] ^= std::byte{4};
  ExpectRefused(header, payload, digests);
  const ReceiveState state = receiver_->Poll(kReservation);
  EXPECT_EQ(state.refused, 1);
  EXPECT_TRUE(absl::IsDataLoss(state.status));
  EXPECT_NE(state.status.message().find("layer 1, KV head 5, block 2"), std::string::npos)
      << state.status;
}

TEST_F(KvReceiverTest, ABlockUnderAnothersDigestIsDataLoss) {
  const KvWireHeader header = Header();
  const std::vector<std::byte> payload = Payload(header);
  std::vector<uint64_t> digests = Digests(header, payload);
  std::swap(digests[0], digests[1]);
  ExpectRefused(header, payload, digests);
  EXPECT_TRUE(absl::IsDataLoss(receiver_->Poll(kReservation).status));
}

TEST_F(KvReceiverTest, GarbageIsRefused) {
  const std::vector<std::byte> before = cache_.memory();
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::byte> header(random() % 300), payload(random() % 2000);
    for (std::byte& b : header) b = static_cast<std::byte>(random());
    if (header.size() >= 4 && i % 2 == 0) std::memcpy(header.data(), &KvWireHeader::kMagic, 4);
    peer_->Send(mine_->address(), header, payload, [this](const absl::Status&) { ++handled_; });
    ++sent_;
  }
  Settle();
  EXPECT_EQ(receiver_->refused_total(), 200);
  EXPECT_TRUE(cache_.memory() == before);
}

TEST_F(KvReceiverTest, OpenChecksItsBlocks) {
  auto code = [&](std::vector<int32_t> table, int first_block) {
    return receiver_
        ->Open({.reservation_id = 1, .block_table = std::move(table), .first_block = first_block})
        .code();
  };
  EXPECT_EQ(code({0, kBlocks}, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({0, -1}, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({0, 1}, 3), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({0, 1}, -1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({0, 1}, 2), absl::StatusCode::kOk);
  EXPECT_EQ(code({0, 1}, 0), absl::StatusCode::kAlreadyExists);
}

TEST_F(KvReceiverTest, AClosedReservationIsUnknown) {
  receiver_->Close(kReservation);
  receiver_->Close(kReservation);
  EXPECT_TRUE(absl::IsNotFound(receiver_->Poll(kReservation).status));
  ExpectRefused(Header());
  // The same number may come again, empty.
  ASSERT_TRUE(
      receiver_->Open({.reservation_id = kReservation, .epoch = kEpoch + 1, .block_table = {1}})
          .ok());
  ExpectRefused(Header());
  EXPECT_EQ(receiver_->Poll(kReservation).received.runs, 0);
}

// Whoever returns from Close owns the blocks: what this thread writes then stays as it is, and
// under ThreadSanitizer nobody else touches it.
TEST(KvReceiverFenceTest, AfterCloseNothingIsWritten) {
  constexpr int kLarge = 8;  // blocks, of 32 KiB so that checking and writing them takes a while
  LocalTransportHub hub;
  TestCache cache(1, 1, 512, kLarge);
  auto mine = hub.Create(), peer = hub.Create();
  auto receiver = KvReceiver::Create(*mine, cache.layers());
  const uint32_t run_bytes = cache.layers()[0].RunBytes();
  const std::vector<std::byte> payload(kLarge * run_bytes, std::byte{1});
  const std::vector<uint64_t> digests(kLarge, Hash64(std::span(payload).first(run_bytes)));
  std::vector<int32_t> table(kLarge);
  std::iota(table.begin(), table.end(), 0);
  std::mt19937_64 random(1);
  int cut_off = 0;
  for (uint64_t id = 1; id <= 200; ++id) {
    ASSERT_TRUE(receiver->Open({.reservation_id = id, .block_table = table}).ok());
    std::vector<std::byte> header;
    EncodeKvHeader({.reservation_id = id, .runs = kLarge, .run_bytes = run_bytes}, digests, header);
    std::atomic<bool> handled = false;
    peer->Send(mine->address(), header, payload, [&](const absl::Status&) { handled = true; });
    const int64_t until = Clock::Real().NowNanos() + static_cast<int64_t>(random() % 200'000);
    while (Clock::Real().NowNanos() < until) {
    }
    cut_off += receiver->Poll(id).received.runs == 0;
    receiver->Close(id);
    std::ranges::fill(cache.memory(), std::byte{0xab});
    ASSERT_TRUE(Eventually([&] { return handled.load(); }));
    ASSERT_TRUE(
        std::ranges::all_of(cache.memory(), [](std::byte b) { return b == std::byte{0xab}; }))
        << "in round " << id;
  }
  EXPECT_GT(cut_off, 0);
}

}  // namespace
}  // namespace headway
