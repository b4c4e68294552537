// A fault planted in each joint turns a row red, and the difference names where. Faults are put
// around the interfaces that the joints have: kernel table, communicator, transport, the loop's
// options. Nothing of them is in the product.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/ops.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/test_communicator_decorator.h"
#include "runtime/experiment/verify/engine_rows.h"
#include "runtime/experiment/verify/verify.h"
#include "runtime/experiment/verify/work.h"
#include "runtime/kv/digest.h"
#include "runtime/transfer/kv_message.h"
#include "runtime/transfer/transport.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

using ::testing::HasSubstr;

// Kernels with one function replaced. The replacement finds the real one here: ops are plain
// function pointers.
const kernels::Ops& Real() { return kernels::BestCpuOps(); }

absl::Status QkvWithEveryLaterChunkOnePositionOff(const kernels::QkvParams& params,
                                                  kernels::Stream& stream) {
  std::vector<kernels::SpanView> spans(params.spans.begin(), params.spans.end());
  for (kernels::SpanView& span : spans) {
    if (span.first_position > 0 && span.rows > 1) {
      // The rotation alone is off: the row still goes to its own block.
      kernels::QkvParams shifted = params;
      kernels::RopeTable rope = params.rope;
      rope.data += 2 * rope.head_dim;
      --rope.max_positions;
      shifted.rope = rope;
      return Real().Qkv(shifted, stream);
    }
  }
  return Real().Qkv(params, stream);
}

absl::Status AttentionWithTwoHeadsSwapped(const kernels::AttentionParams& params,
                                          kernels::Stream& stream) {
  std::vector<int> heads(params.kv_head_of_query.begin(), params.kv_head_of_query.end());
  // The last query head reads the first KV head: what a wrong shard plan does.
  if (params.kv_head_of_query.size() < 9) heads.back() = 0;
  kernels::AttentionParams swapped = params;
  std::vector<float> queries(static_cast<size_t>(params.rows) * params.query_stride);
  std::memcpy(queries.data(), params.queries, queries.size() * sizeof(float));
  if (params.query_heads < 9) {
    for (int row = 0; row < params.rows; ++row) {
      float* q = queries.data() + static_cast<int64_t>(row) * params.query_stride;
      std::swap_ranges(q, q + params.kv.head_dim, q + params.kv.head_dim);
    }
  }
  swapped.queries = queries.data();
  return Real().Attention(swapped, stream);
}

absl::Status AttentionThatSeesOneKeyMore(const kernels::AttentionParams& params,
                                         kernels::Stream& stream) {
  std::vector<kernels::SpanView> spans(params.spans.begin(), params.spans.end());
  for (kernels::SpanView& span : spans) {
    if (span.rows > 1 && span.first_position + span.rows < 40) ++span.first_position;
  }
  kernels::AttentionParams wide = params;
  wide.spans = spans;
  return Real().Attention(wide, stream);
}

absl::Status AttentionThatReadsAnOldBlock(const kernels::AttentionParams& params,
                                          kernels::Stream& stream) {
  std::vector<kernels::SpanView> spans(params.spans.begin(), params.spans.end());
  std::vector<std::vector<int32_t>> tables;
  for (kernels::SpanView& span : spans) {
    const int blocks = (span.first_position + span.rows + 15) / 16;
    tables.emplace_back(span.block_table, span.block_table + blocks);
    if (blocks > 1) tables.back()[1] = tables.back()[0];
    span.block_table = tables.back().data();
  }
  kernels::AttentionParams stale = params;
  stale.spans = spans;
  return Real().Attention(stale, stream);
}

kernels::Ops With(std::function<void(kernels::Ops&)> change) {
  kernels::Ops ops = Real();
  change(ops);
  return ops;
}

// Takes the ranks' sums in another order: the roots of one rank come back to front, so the tree
// adds other neighbours first.
class ReorderedSums : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  absl::Status Gather(int root, std::span<const std::byte> mine, std::span<const int64_t> sizes,
                      std::byte* all) override {
    absl::Status status = CommunicatorDecorator::Gather(root, mine, sizes, all);
    // An exchange of sums is the gather in which everybody gets everything and every rank brings
    // several matrices.
    if (status.ok() && root < 0 && sizes.size() == 3 && sizes[0] == sizes[1] &&
        sizes[1] == sizes[2] && sizes[0] >= 512) {
      const size_t half = sizes[0] / 2;
      std::swap_ranges(all, all + half, all + sizes[0]);
    }
    return status;
  }
};

// Puts an earlier block of the same layer and head in place of each later one, with the digest that
// belongs to it: what a peer with a stale buffer would send.
class StaleBlocks : public Transport {
 public:
  explicit StaleBlocks(std::unique_ptr<Transport> real) : real_(std::move(real)) {}
  std::string address() const override { return real_->address(); }
  void SetReceiver(Receiver receiver) override { real_->SetReceiver(std::move(receiver)); }
  void SendPieces(const std::string& peer, std::span<const std::byte> header,
                  std::span<const std::span<const std::byte>> pieces, Done done) override {
    std::vector<std::byte> payload;
    for (const auto& piece : pieces) payload.insert(payload.end(), piece.begin(), piece.end());
    absl::StatusOr<KvMessage> message = DecodeKvMessage(header, payload);
    ASSERT_TRUE(message.ok()) << message.status();
    const KvWireHeader& h = message->header;
    std::vector<std::byte>& first = first_runs_[{h.layer, h.kv_head}];
    if (first.empty()) first.assign(message->run(0).begin(), message->run(0).end());
    std::vector<uint64_t> digests(h.runs);
    for (uint32_t i = 0; i < h.runs; ++i) {
      if (h.first_block + i > 0)
        std::copy(first.begin(), first.end(), payload.begin() + i * int64_t{h.run_bytes});
      digests[i] = RunDigest({payload.data() + i * int64_t{h.run_bytes}, h.run_bytes});
    }
    std::vector<std::byte> changed;
    EncodeKvHeader(h, digests, changed);
    real_->Send(peer, changed, payload, std::move(done));
  }

 private:
  std::unique_ptr<Transport> real_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::byte>> first_runs_;
};

class FaultsTest : public ::testing::Test {
 protected:
  FaultsTest() {
    checkpoint_ = *Checkpoint::Open(GoldenPath("models/llama_gqa_9_3"));
    case_.prompt.resize(40);
    for (int i = 0; i < 40; ++i) case_.prompt[i] = (i * 37 + 11) % 163;
    case_.sampling = {.temperature = 0.8f, .seed = 3, .max_tokens = 8, .ignore_eos = true};
    options_.engine.numerics.kv_dtype = DType::kF16;
    options_.engine.limits = {.max_rows = 64, .max_logit_rows = 64, .max_positions = 64};
  }

  LocalGroupOptions Degree(int degree) const {
    LocalGroupOptions options = options_;
    options.degree = degree;
    return options;
  }
  LocalGroupOptions Chunk(int chunk) const {
    LocalGroupOptions options = options_;
    options.node.max_chunk = chunk;
    return options;
  }

  // What verify says of one row beside the uncached one.
  absl::Status VerifyRowAgainstUncached(std::unique_ptr<VerifyRow> row) {
    std::vector<std::unique_ptr<VerifyRow>> rows;
    rows.push_back(NewUncachedRow(*checkpoint_, options_.engine));
    rows.push_back(std::move(row));
    outcomes_.clear();
    return Verify(case_, rows, [this](const RowOutcome& outcome) { outcomes_.push_back(outcome); });
  }

  std::unique_ptr<Checkpoint> checkpoint_;
  VerifyCase case_;
  LocalGroupOptions options_;
  std::vector<RowOutcome> outcomes_;
};

TEST_F(FaultsTest, SoundRowsAgree) {
  std::vector<std::unique_ptr<VerifyRow>> rows;
  rows.push_back(NewUncachedRow(*checkpoint_, options_.engine));
  rows.push_back(NewMixedRow("cached", *checkpoint_, options_));
  rows.push_back(NewMixedRow("chunks of 1", *checkpoint_, Chunk(1)));
  rows.push_back(NewMixedRow("chunks of 16", *checkpoint_, Chunk(16)));
  rows.push_back(NewMixedRow("with 8 others", *checkpoint_, options_, 8));
  rows.push_back(NewMixedRow("degree 3", *checkpoint_, Degree(3)));
  rows.push_back(NewPairRow("2 -> 3", *checkpoint_, Degree(2), Degree(3)));
  int reported = 0;
  const absl::Status status = Verify(case_, rows, [&](const RowOutcome& outcome) {
    ++reported;
    EXPECT_TRUE(outcome.equal()) << outcome.name;
    EXPECT_EQ(outcome.tokens, 8);
    EXPECT_EQ(outcome.positions, 47);
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(reported, 7);
}

TEST_F(FaultsTest, ARowOfTheStartAloneIsComparedThere) {
  constexpr int kStart = 17;
  EXPECT_TRUE(
      VerifyRowAgainstUncached(NewMixedRow("start", *checkpoint_, options_, 0, kStart)).ok());
  EXPECT_EQ(outcomes_[1].tokens, 0);
  EXPECT_EQ(outcomes_[1].positions, kStart);
  const kernels::Ops ops =
      With([](kernels::Ops& o) { o.Attention = AttentionWithTwoHeadsSwapped; });
  LocalGroupOptions options = Degree(3);
  options.engine.ops = &ops;
  EXPECT_FALSE(
      VerifyRowAgainstUncached(NewMixedRow("start", *checkpoint_, options, 0, kStart)).ok());
}

TEST_F(FaultsTest, ASwappedHeadIsSeen) {
  const kernels::Ops ops =
      With([](kernels::Ops& o) { o.Attention = AttentionWithTwoHeadsSwapped; });
  LocalGroupOptions options = Degree(3);
  options.engine.ops = &ops;
  const absl::Status status =
      VerifyRowAgainstUncached(NewMixedRow("swapped", *checkpoint_, options));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("row \"swapped\" differs at position 1, layer 0"));
}

TEST_F(FaultsTest, AWrongPositionAfterAChunkIsSeen) {
  const kernels::Ops ops =
      With([](kernels::Ops& o) { o.Qkv = QkvWithEveryLaterChunkOnePositionOff; });
  LocalGroupOptions options = Chunk(16);
  options.engine.ops = &ops;
  const absl::Status status =
      VerifyRowAgainstUncached(NewMixedRow("shifted", *checkpoint_, options));
  EXPECT_THAT(std::string(status.message()), HasSubstr("differs at position 16, layer 0"));
}

TEST_F(FaultsTest, AMaskOneKeyTooWideIsSeen) {
  const kernels::Ops ops = With([](kernels::Ops& o) { o.Attention = AttentionThatSeesOneKeyMore; });
  LocalGroupOptions options = Chunk(16);
  options.engine.ops = &ops;
  const absl::Status status = VerifyRowAgainstUncached(NewMixedRow("wide", *checkpoint_, options));
  EXPECT_THAT(std::string(status.message()), HasSubstr("differs at position 0, layer 0"));
}

TEST_F(FaultsTest, AStaleBlockInTheCacheIsSeen) {
  const kernels::Ops ops =
      With([](kernels::Ops& o) { o.Attention = AttentionThatReadsAnOldBlock; });
  LocalGroupOptions options = options_;
  options.engine.ops = &ops;
  const absl::Status status = VerifyRowAgainstUncached(NewMixedRow("stale", *checkpoint_, options));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("row \"stale\" differs at position 16, layer 0"));
}

TEST_F(FaultsTest, AStaleBlockOnTheWayIsRefusedByTheManifest) {
  const absl::Status status = VerifyRowAgainstUncached(NewPairRow(
      "stale transfer", *checkpoint_, Degree(1), Degree(2), [](std::unique_ptr<Transport> real) {
        return std::make_unique<StaleBlocks>(std::move(real));
      }));
  EXPECT_THAT(std::string(status.message()), HasSubstr("row \"stale transfer\" could not run"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("manifest"));
}

TEST_F(FaultsTest, AReorderedSumIsSeen) {
  LocalGroupOptions options = Degree(3);
  options.wrap_communicator = [](std::unique_ptr<Communicator> real) {
    return std::make_unique<ReorderedSums>(std::move(real));
  };
  const absl::Status status =
      VerifyRowAgainstUncached(NewMixedRow("reordered", *checkpoint_, options));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("row \"reordered\" differs at position 0, layer 0"));
}

TEST_F(FaultsTest, ARowThatCannotRunIsRed) {
  const absl::Status status =
      VerifyRowAgainstUncached(NewMixedRow("degree 10", *checkpoint_, Degree(10)));
  EXPECT_THAT(std::string(status.message()), HasSubstr("could not run"));
}

TEST_F(FaultsTest, WorkIsLinearWithTheCacheAndQuadraticWithout) {
  std::vector<int32_t> tokens(41);
  std::iota(tokens.begin(), tokens.end(), 1);
  absl::StatusOr<WorkTable> work = CountWork(*checkpoint_, options_.engine, tokens);
  ASSERT_TRUE(work.ok()) << work.status();
  EXPECT_EQ(work->five_cached, 5);
  EXPECT_EQ(work->five_uncached, 5);
  EXPECT_EQ(work->sixth_cached, 1);
  EXPECT_EQ(work->sixth_uncached, 6);
  ASSERT_EQ(work->cached.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const int64_t n = work->cached[i].position + 1;
    EXPECT_EQ(work->cached[i].projections, 1);
    EXPECT_EQ(work->cached[i].attended_keys, n);
    EXPECT_EQ(work->uncached[i].projections, n);
    EXPECT_EQ(work->uncached[i].attended_keys, n * (n + 1) / 2);
  }
}

}  // namespace
}  // namespace headway
