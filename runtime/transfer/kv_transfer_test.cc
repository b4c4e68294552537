// Sender and receiver together: what one node's ranks compute is what the other's hold.
#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "gtest/gtest.h"
#include "runtime/base/hash.h"
#include "runtime/transfer/kv_receiver.h"
#include "runtime/transfer/kv_sender.h"
#include "runtime/transfer/local_transport.h"
#include "runtime/transfer/plan.h"
#include "runtime/transfer/testing.h"
#include "runtime/transfer/ucx_transport.h"

namespace headway {
namespace {

constexpr int kLayers = 3, kHeadDim = 8, kPool = 50;
constexpr int64_t kNever = INT64_MAX;

using NewTransport = std::function<std::unique_ptr<Transport>()>;

// The caches, transports and both ends of every rank of one node.
struct Node {
  Node(const ModelConfig& config, int degree, const NewTransport& new_transport,
       DType dtype = DType::kF16)
      : plan(*MakeShardPlan(config, degree)) {
    for (int rank = 0; rank < degree; ++rank) {
      const std::vector<int>& heads = plan.ranks[rank].kv_heads;
      caches.push_back(std::make_unique<TestCache>(config.layers, static_cast<int>(heads.size()),
                                                   config.head_dim, kPool, dtype));
      transports.push_back(new_transport());
      senders.push_back(KvSender::Create(*transports[rank], caches[rank]->layers(), clock));
      receivers.push_back(KvReceiver::Create(*transports[rank], caches[rank]->layers(),
                                             {.name = "decode", .kv_heads = heads}));
    }
  }
  std::vector<std::string> addresses() const {
    std::vector<std::string> all;
    for (const auto& transport : transports) all.push_back(transport->address());
    return all;
  }
  int degree() const { return plan.degree; }

  FakeClock clock;
  ShardPlan plan;
  std::vector<std::unique_ptr<TestCache>> caches;
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::unique_ptr<KvSender>> senders;
  std::vector<std::unique_ptr<KvReceiver>> receivers;
};

// One sequence on its way from `prefill` to `decode`.
struct Transfer {
  Node& prefill;
  Node& decode;
  uint64_t id;
  std::vector<int32_t> source_table, target_table;
  int first_block = 0;

  int blocks() const { return static_cast<int>(source_table.size()); }

  // What the prefill ranks compute.
  void FillSource() const {
    for (int rank = 0; rank < prefill.degree(); ++rank) {
      const std::vector<int>& heads = prefill.plan.ranks[rank].kv_heads;
      for (int layer = 0; layer < kLayers; ++layer) {
        for (size_t head = 0; head < heads.size(); ++head) {
          for (int block = 0; block < blocks(); ++block) {
            const auto run = prefill.caches[rank]->Run(layer, head, source_table[block]);
            std::ranges::copy(RunPattern(run.size(), layer, heads[head], block, id), run.begin());
          }
        }
      }
    }
  }

  void Begin(uint64_t epoch = 1) const {
    for (auto& receiver : decode.receivers) {
      const absl::Status opened = receiver->Open({.reservation_id = id,
                                                  .epoch = epoch,
                                                  .block_table = target_table,
                                                  .first_block = first_block});
      ASSERT_TRUE(opened.ok()) << opened;
    }
    const std::vector<HeadRoute> routes = PlanTransfer(prefill.plan, decode.plan);
    for (int rank = 0; rank < prefill.degree(); ++rank) {
      SendTask task = {.reservation_id = id,
                       .epoch = epoch,
                       .peer_addresses = decode.addresses(),
                       .block_table = source_table,
                       .first_block = first_block,
                       .deadline_nanos = kNever};
      for (const HeadRoute& route : routes) {
        if (route.source_rank == rank) task.routes.push_back(route);
      }
      const absl::Status begun = prefill.senders[rank]->Begin(std::move(task));
      ASSERT_TRUE(begun.ok()) << begun;
    }
  }

  void LayerReady(int layer, int begin, int end) const {
    for (auto& sender : prefill.senders) sender->OnLayerReady(id, layer, begin, end);
  }

  // Seals the transfer: the sum of what all sources sent to each target.
  Manifest Seal() const {
    Manifest manifest = {.reservation_id = id, .ranks = std::vector<RankManifest>(decode.degree())};
    for (auto& sender : prefill.senders) {
      EXPECT_TRUE(Eventually([&] { return sender->Poll(id).done; }));
      const SendState state = sender->Poll(id);
      EXPECT_TRUE(state.status.ok()) << state.status;
      for (int rank = 0; rank < decode.degree(); ++rank) {
        manifest.ranks[rank].Add(state.parts[rank]);
      }
    }
    return manifest;
  }

  bool Complete(const Manifest& manifest) const {
    for (int rank = 0; rank < decode.degree(); ++rank) {
      if (decode.receivers[rank]->Poll(id).received != manifest.ranks[rank]) return false;
    }
    return true;
  }

  void End() const {
    for (auto& sender : prefill.senders) sender->End(id);
    for (auto& receiver : decode.receivers) receiver->Close(id);
  }

  // Every byte of every decode rank: this sequence's blocks, and zeros elsewhere.
  void ExpectArrived() const {
    for (int rank = 0; rank < decode.degree(); ++rank) {
      const std::vector<int>& heads = decode.plan.ranks[rank].kv_heads;
      const TestCache& cache = *decode.caches[rank];
      for (int layer = 0; layer < kLayers; ++layer) {
        for (size_t head = 0; head < heads.size(); ++head) {
          std::map<int, int> index;  // block id -> index in the sequence
          for (int block = first_block; block < blocks(); ++block) {
            index[target_table[block]] = block;
          }
          for (int block_id = 0; block_id < kPool; ++block_id) {
            const auto run = cache.Run(layer, head, block_id);
            const auto expected =
                index.contains(block_id)
                    ? RunPattern(run.size(), layer, heads[head], index[block_id], id)
                    : std::vector<std::byte>(run.size());
            ASSERT_TRUE(std::ranges::equal(run, expected))
                << "rank " << rank << " layer " << layer << " head " << heads[head] << " block id "
                << block_id;
          }
        }
      }
    }
  }
};

std::vector<int32_t> Table(int blocks, int factor) {
  std::vector<int32_t> table;
  for (int i = 0; i < blocks; ++i) table.push_back((i * factor + 5) % kPool);
  return table;
}

class KvTransferTest : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(KvTransferTest, EveryByteArrivesForEveryPairOfDegrees) {
  for (auto [query_heads, kv_heads] : {std::pair(9, 3), {8, 2}, {6, 6}, {4, 1}}) {
    SCOPED_TRACE(testing::Message() << query_heads << " query heads, " << kv_heads << " KV heads");
    const ModelConfig config = TestModel(query_heads, kv_heads, kLayers);
    LocalTransportHub hub;
    const NewTransport local = [&] { return hub.Create(); };
    Node prefill(config, GetParam().first, local), decode(config, GetParam().second, local);
    const Transfer transfer = {.prefill = prefill,
                               .decode = decode,
                               .id = 77,
                               .source_table = Table(13, 1),
                               .target_table = Table(13, 7),
                               .first_block = 2};
    transfer.FillSource();
    transfer.Begin();
    // Two chunks, of which the first ends inside block 6: that block is final with the second only.
    for (int layer = 0; layer < kLayers; ++layer) transfer.LayerReady(layer, 0, 6);
    for (int layer = 0; layer < kLayers; ++layer) transfer.LayerReady(layer, 6, 13);
    const Manifest manifest = transfer.Seal();
    ASSERT_TRUE(Eventually([&] { return transfer.Complete(manifest); }));
    for (int rank = 0; rank < decode.degree(); ++rank) {
      const int64_t heads = decode.plan.ranks[rank].kv_heads.size();
      EXPECT_EQ(manifest.ranks[rank].runs, kLayers * heads * 11);
      EXPECT_EQ(decode.receivers[rank]->refused_total(), 0);
    }
    transfer.End();
    transfer.ExpectArrived();
  }
}

INSTANTIATE_TEST_SUITE_P(Degrees, KvTransferTest,
                         testing::Values(std::pair(1, 1), std::pair(1, 2), std::pair(1, 3),
                                         std::pair(2, 1), std::pair(2, 2), std::pair(2, 3),
                                         std::pair(3, 1), std::pair(3, 2), std::pair(3, 3),
                                         std::pair(4, 1), std::pair(1, 4), std::pair(4, 2),
                                         std::pair(2, 4)),
                         [](const auto& info) {
                           return testing::PrintToString(info.param.first) + "To" +
                                  testing::PrintToString(info.param.second);
                         });

// One element of a cache of float32, by its layer, its head on this rank, its token and dimension,
// as attention finds it.
float& Element(const TestCache& cache, std::span<const int32_t> table, bool value, int layer,
               int head, int token, int dim) {
  const std::span<std::byte> run = cache.Run(layer, head, table[token / kernels::kKvBlockTokens]);
  float* half = reinterpret_cast<float*>(run.data()) + (value ? run.size() / 2 / sizeof(float) : 0);
  const int in_block = token % kernels::kKvBlockTokens;
  return value ? half[in_block * kHeadDim + dim] : half[dim * kernels::kKvBlockTokens + in_block];
}

// Every layer, head, token and dimension lands where the other degree looks for it.
TEST_P(KvTransferTest, EveryElementIsFoundWhereItsHeadIs) {
  const auto expected = [](bool value, int layer, int head, int token, int dim) {
    const int number = layer * 1'000'000 + head * 10'000 + token * 100 + dim;
    return static_cast<float>(value ? -number - 1 : number + 1);
  };
  for (const auto& [query_heads, kv_heads] : {std::pair(8, 4), {8, 2}}) {
    for (const int tokens : {1, 15, 16, 17}) {
      SCOPED_TRACE(testing::Message() << kv_heads << " KV heads, " << tokens << " tokens");
      const ModelConfig config = TestModel(query_heads, kv_heads, kLayers);
      LocalTransportHub hub;
      const NewTransport local = [&] { return hub.Create(); };
      Node prefill(config, GetParam().first, local, DType::kF32);
      Node decode(config, GetParam().second, local, DType::kF32);
      const int blocks = (tokens + 15) / 16;
      const Transfer transfer = {.prefill = prefill,
                                 .decode = decode,
                                 .id = 9,
                                 .source_table = Table(blocks, 1),
                                 .target_table = Table(blocks, 7)};
      const auto each = [&](const Node& node, std::span<const int32_t> table, const auto& visit) {
        for (int rank = 0; rank < node.degree(); ++rank) {
          const std::vector<int>& heads = node.plan.ranks[rank].kv_heads;
          for (int layer = 0; layer < kLayers; ++layer) {
            for (size_t head = 0; head < heads.size(); ++head) {
              for (int token = 0; token < tokens; ++token) {
                for (int dim = 0; dim < kHeadDim; ++dim) {
                  for (const bool value : {false, true}) {
                    visit(Element(*node.caches[rank], table, value, layer, static_cast<int>(head),
                                  token, dim),
                          expected(value, layer, heads[head], token, dim));
                  }
                }
              }
            }
          }
        }
      };
      each(prefill, transfer.source_table, [](float& found, float wanted) { found = wanted; });
      transfer.Begin();
      for (int layer = 0; layer < kLayers; ++layer) transfer.LayerReady(layer, 0, blocks);
      const Manifest manifest = transfer.Seal();
      ASSERT_TRUE(Eventually([&] { return transfer.Complete(manifest); }));
      transfer.End();
      int wrong = 0;
      each(decode, transfer.target_table,
           [&](float found, float wanted) { wrong += found != wanted; });
      EXPECT_EQ(wrong, 0);
    }
  }
}

// What the decode node holds already is not sent, and what is sent keeps its place in the sequence.
TEST(KvTransferOfAPartTest, OnlyTheMissingBlocksAreSent) {
  const ModelConfig config = TestModel(4, 2, kLayers);
  for (const int held : {0, 3, 5, 6}) {
    SCOPED_TRACE(held);
    LocalTransportHub hub;
    const NewTransport local = [&] { return hub.Create(); };
    Node prefill(config, 1, local), decode(config, 2, local);
    const Transfer transfer = {.prefill = prefill,
                               .decode = decode,
                               .id = 5,
                               .source_table = Table(6, 1),
                               .target_table = Table(6, 7),
                               .first_block = held};
    transfer.FillSource();
    transfer.Begin();
    for (int layer = 0; layer < kLayers; ++layer) transfer.LayerReady(layer, 0, 6);
    const Manifest manifest = transfer.Seal();
    ASSERT_TRUE(Eventually([&] { return transfer.Complete(manifest); }));
    for (const RankManifest& rank : manifest.ranks) EXPECT_EQ(rank.runs, kLayers * (6 - held));
    transfer.End();
    transfer.ExpectArrived();
  }
}

TEST(KvTransferOverUcxTest, EveryByteArrives) {
  const ModelConfig config = TestModel(9, 3, kLayers);
  const NewTransport ucx = [] {
    auto transport = UcxTransport::Create({.net_devices = "lo"});
    EXPECT_TRUE(transport.ok()) << transport.status();
    return *std::move(transport);
  };
  Node prefill(config, 2, ucx), decode(config, 3, ucx);
  const Transfer transfer = {.prefill = prefill,
                             .decode = decode,
                             .id = 3,
                             .source_table = Table(40, 3),
                             .target_table = Table(40, 7)};
  transfer.FillSource();
  transfer.Begin();
  for (int layer = 0; layer < kLayers; ++layer) transfer.LayerReady(layer, 0, 40);
  const Manifest manifest = transfer.Seal();
  ASSERT_TRUE(Eventually([&] { return transfer.Complete(manifest); }));
  transfer.End();
  transfer.ExpectArrived();
}

// One rank to one rank, with a hand in between.
class TamperedTransferTest : public testing::Test {
 protected:
  // Runs a transfer through `tamper`; returns the manifest after everything that was going to
  // arrive has arrived.
  Manifest Run(TamperingTransport::Tamper tamper) {
    const ModelConfig config = TestModel(4, 2, kLayers);
    const NewTransport tampered = [&] {
      return std::make_unique<TamperingTransport>(hub_.Create(), tamper);
    };
    prefill_ = std::make_unique<Node>(config, 1, tampered);
    decode_ = std::make_unique<Node>(config, 1, [&] { return hub_.Create(); });
    const Transfer transfer = {.prefill = *prefill_,
                               .decode = *decode_,
                               .id = 1,
                               .source_table = Table(4, 3),
                               .target_table = Table(4, 7)};
    transfer.FillSource();
    transfer.Begin();
    for (int layer = 0; layer < kLayers; ++layer) transfer.LayerReady(layer, 0, 4);
    // A local transport says that a message is done when its receiver has seen it.
    return transfer.Seal();
  }
  ReceiveState Received() { return decode_->receivers[0]->Poll(1); }

  LocalTransportHub hub_;
  std::unique_ptr<Node> prefill_, decode_;
};

TEST_F(TamperedTransferTest, UntouchedItIsComplete) {
  const Manifest manifest = Run([](auto&, auto&) { return true; });
  EXPECT_EQ(Received().received, manifest.ranks[0]);
}

TEST_F(TamperedTransferTest, ADroppedMessageIsMissed) {
  std::atomic<int> count = 0;
  const Manifest manifest = Run([&](auto&, auto&) { return ++count != 3; });
  EXPECT_EQ(manifest.ranks[0].runs, kLayers * 2 * 4);
  EXPECT_EQ(Received().received.runs, manifest.ranks[0].runs - 4);
  EXPECT_NE(Received().received, manifest.ranks[0]);
  EXPECT_TRUE(Received().status.ok());
}

TEST_F(TamperedTransferTest, AMessageThatComesTwiceChangesNothing) {
  std::vector<std::byte> last_header, last_payload;
  auto extra = hub_.Create();
  const Manifest manifest = Run([&](auto& header, auto& payload) {
    last_header = header, last_payload = payload;
    return true;
  });
  std::atomic<bool> seen = false;
  extra->Send(decode_->transports[0]->address(), last_header, last_payload,
              [&](const absl::Status&) { seen = true; });
  ASSERT_TRUE(Eventually([&] { return seen.load(); }));
  EXPECT_EQ(Received().received, manifest.ranks[0]);
  EXPECT_EQ(Received().refused, 0);
}

TEST_F(TamperedTransferTest, AFlippedBitIsRefused) {
  std::atomic<int> count = 0;
  const Manifest manifest = Run([&](auto&, auto& payload) {
    if (++count == 2) payload[payload.size() / 2] ^= std::byte{1};
    return true;
  });
  EXPECT_EQ(Received().received.runs, manifest.ranks[0].runs - 4);
  EXPECT_EQ(Received().refused, 1);
  EXPECT_TRUE(absl::IsDataLoss(Received().status));
}

TEST_F(TamperedTransferTest, ATruncatedMessageIsRefused) {
  std::atomic<int> count = 0;
  Run([&](auto&, auto& payload) {
    if (++count == 2) payload.pop_back();
    return true;
  });
  EXPECT_EQ(decode_->receivers[0]->refused_total(), 1);
}

TEST(KvTransferChurnTest, TransfersComeAndGoAndAreCutOff) {
  const ModelConfig config = TestModel(9, 3, kLayers);
  LocalTransportHub hub;
  const NewTransport local = [&] { return hub.Create(); };
  Node prefill(config, 2, local), decode(config, 3, local);
  constexpr int kThreads = 3, kRounds = 25, kMost = 15;
  std::vector<std::thread> threads;
  std::atomic<int> completed = 0;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      // Each thread has blocks of its own on both sides, and uses them again at once.
      std::vector<int32_t> mine;
      for (int i = 0; i < kMost; ++i) mine.push_back(thread * kMost + i);
      for (int round = 0; round < kRounds; ++round) {
        const int blocks = 1 + static_cast<int>(random() % kMost);
        Transfer transfer = {.prefill = prefill,
                             .decode = decode,
                             .id = 1000u * (thread + 1) + round,
                             .source_table = mine,
                             .target_table = mine};
        std::ranges::shuffle(transfer.source_table, random);
        std::ranges::shuffle(transfer.target_table, random);
        transfer.source_table.resize(blocks);
        transfer.target_table.resize(blocks);
        transfer.FillSource();
        transfer.Begin();
        const int cut_off_at = static_cast<int>(random() % (2 * kLayers));
        for (int layer = 0; layer < kLayers && layer <= cut_off_at; ++layer) {
          const int half = static_cast<int>(random() % (blocks + 1));
          transfer.LayerReady(layer, 0, half);
          transfer.LayerReady(layer, half, blocks);
        }
        if (cut_off_at < kLayers) {
          transfer.End();
          continue;
        }
        const Manifest manifest = transfer.Seal();
        EXPECT_TRUE(Eventually([&] { return transfer.Complete(manifest); }));
        transfer.End();
        for (int rank = 0; rank < decode.degree(); ++rank) {
          const std::vector<int>& heads = decode.plan.ranks[rank].kv_heads;
          for (int layer = 0; layer < kLayers; ++layer) {
            for (size_t head = 0; head < heads.size(); ++head) {
              for (int block = 0; block < blocks; ++block) {
                const auto run =
                    decode.caches[rank]->Run(layer, head, transfer.target_table[block]);
                EXPECT_TRUE(std::ranges::equal(
                    run, RunPattern(run.size(), layer, heads[head], block, transfer.id)));
              }
            }
          }
        }
        ++completed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(completed, kThreads * kRounds / 4);
}

}  // namespace
}  // namespace headway
