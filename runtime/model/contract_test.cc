// The contract: logits at a position are a pure function of the tokens up to it, bit for bit,
// whatever else differs.

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/hash.h"
#include "runtime/model/overlay_checkpoint.h"
#include "runtime/model/rank_group.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

using kernels::ActivationFormat;
using Logits = BatchSpan::Logits;

struct ContractCase {
  std::string name;
  std::string model;
  NumericsOptions numerics;
  int tokens;                    // of the sequence under test
  uint64_t bits;                 // hash of its logits
  std::string embedding_from{};  // take the embedding from another file
};

void PrintTo(const ContractCase& contract, std::ostream* out) { *out << contract.name; }

std::vector<int32_t> RandomTokens(int count, int vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % vocabulary);
  return tokens;
}

class ContractTest : public testing::TestWithParam<ContractCase> {
 protected:
  void SetUp() override {
    checkpoint_ = Open(GetParam().model);
    if (!GetParam().embedding_from.empty()) {
      embedding_source_ = Open(GetParam().embedding_from);
      auto overlay = std::make_unique<OverlayCheckpoint>(*checkpoint_);
      overlay->SetTensor(*embedding_source_->Tensor("token_embd.weight"));
      base_ = std::move(checkpoint_);
      checkpoint_ = std::move(overlay);
    }
    tokens_ = RandomTokens(GetParam().tokens, ReadModelConfig(*checkpoint_)->vocabulary, 1);
    // Once a checkpoint: the reference is slow.
    static std::map<std::string, LogitRows> cache;
    LogitRows& expected = cache[GetParam().name];
    if (expected.empty()) {
      const auto group = New({.ops = &kernels::ReferenceOps()});
      expected = Sequence(*group).Feed(tokens_, GetParam().tokens);
    }
    expected_ = expected;
  }

  static std::unique_ptr<Checkpoint> Open(const std::string& model) {
    auto checkpoint = Checkpoint::Open(GoldenPath(model));
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    return *std::move(checkpoint);
  }

  std::unique_ptr<RankGroup> New(RankGroup::Options options) const {
    options.numerics = GetParam().numerics;
    options.num_blocks = 101;
    auto group = RankGroup::Create(*checkpoint_, options);
    EXPECT_TRUE(group.ok()) << group.status();
    return *std::move(group);
  }

  TestSequence Sequence(RankGroup& group, int first_block = 0, int stride = 1) const {
    return TestSequence(group, (GetParam().tokens + 15) / 16, first_block, stride);
  }

  std::unique_ptr<Checkpoint> base_, embedding_source_, checkpoint_;
  std::vector<int32_t> tokens_;
  LogitRows expected_;  // the whole prompt at once, one rank, one thread, the reference kernels
};

// On every machine. Changes only together with kernels::kCpuKernelVersion.
TEST_P(ContractTest, BitsAreFixed) {
  uint64_t bits = 0;
  for (const auto& row : expected_) bits = HashCombine(bits, Hash64(std::as_bytes(std::span(row))));
  EXPECT_EQ(bits, GetParam().bits) << std::hex << bits;
}

TEST_P(ContractTest, ChunksDoNotMatter) {
  const auto group = New({});
  for (const int chunk : {1, 3, 16, 17}) {
    EXPECT_TRUE(SameBits(Sequence(*group).Feed(tokens_, chunk), expected_)) << "chunk " << chunk;
  }
}

// Prompts that end a token before, at and after the end of a chunk, the first, second and third.
TEST_P(ContractTest, WhereAPromptEndsInItsChunkDoesNotMatter) {
  const auto group = New({.degree = 2});
  for (const int chunk : {1, 16, 64}) {
    for (const int length :
         {chunk - 1, chunk, chunk + 1, 2 * chunk, 2 * chunk + 1, 3 * chunk - 1}) {
      if (length < 1 || length > GetParam().tokens) continue;
      EXPECT_TRUE(SameBits(Sequence(*group).Feed(std::span(tokens_).first(length), chunk),
                           LogitRows(expected_.begin(), expected_.begin() + length)))
          << length << " tokens in chunks of " << chunk;
    }
  }
}

TEST_P(ContractTest, PlacesOfBlocksDoNotMatter) {
  const auto group = New({});
  EXPECT_TRUE(SameBits(Sequence(*group, 50, 37).Feed(tokens_, 20), expected_));
}

TEST_P(ContractTest, StaleCacheContentsDoNotMatter) {
  const auto group = New({});
  Sequence(*group).Feed(RandomTokens(GetParam().tokens, group->config().vocabulary, 2), 64);
  EXPECT_TRUE(SameBits(Sequence(*group).Feed(tokens_, 7), expected_));
}

TEST_P(ContractTest, DegreesThreadsAndKernelsDoNotMatter) {
  const int groups = New({})->plan().attention_groups();
  for (const kernels::Ops* ops : kernels::SupportedCpuOps()) {
    for (const auto& [degree, threads] :
         {std::pair(1, 1), {1, 2}, {1, 3}, {2, 1}, {3, 2}, {groups, 1}}) {
      SCOPED_TRACE(testing::Message()
                   << ops->name << ", degree " << degree << ", " << threads << " threads");
      const auto group = New({.degree = degree, .threads = threads, .ops = ops});
      EXPECT_TRUE(SameBits(Sequence(*group).Feed(tokens_, 30), expected_));
      EXPECT_TRUE(SameBits(Sequence(*group, 3, 2).Feed(std::span(tokens_).first(5), 1),
                           LogitRows(expected_.begin(), expected_.begin() + 5)));
    }
  }
}

TEST_P(ContractTest, RecomputingWithoutACacheGivesTheSame) {
  const auto group = New({.degree = 2});
  const int step = std::max(1, GetParam().tokens / 5);
  for (int length = 1; length <= GetParam().tokens; length += step) {
    const TestSequence sequence = Sequence(*group);
    const BatchSpan whole = sequence.Next(std::span(tokens_).first(length), Logits::kLast);
    ASSERT_TRUE(group->Run({&whole, 1}).ok());
    EXPECT_TRUE(SameBits(CopyLogits(*group), {expected_[length - 1]})) << length << " tokens";
  }
}

// A prompt in chunks beside other prompts and other sequences that decode.
TEST_P(ContractTest, CompanyDoesNotMatter) {
  for (const int degree : {1, 2}) {
    const auto group = New({.degree = degree});
    const int vocabulary = group->config().vocabulary;
    constexpr int kOthers = 5, kOtherTokens = 60;
    std::vector<std::vector<int32_t>> other_tokens;
    std::vector<TestSequence> others;
    std::vector<int> fed;
    for (int i = 0; i < kOthers; ++i) {
      other_tokens.push_back(RandomTokens(kOtherTokens, vocabulary, 10 + i));
      others.emplace_back(*group, 4, 81 + 4 * i);
      fed.push_back(1 + 7 * i);
      others[i].Feed(std::span(other_tokens[i]).first(fed[i]), 64);
    }

    TestSequence sequence = Sequence(*group);
    LogitRows logits;
    for (size_t at = 0; at < tokens_.size();) {
      const size_t chunk = std::min<size_t>(tokens_.size() - at, 1 + at % 23);
      std::vector<BatchSpan> batch;
      size_t wanted_before = 0;
      // Others before and behind, the last of them with two tokens.
      for (int i = 0; i < kOthers; ++i) {
        if (i == 2) {
          for (const BatchSpan& span : batch) wanted_before += span.logits == Logits::kLast;
          batch.push_back(sequence.Next(std::span(tokens_).subspan(at, chunk), Logits::kAll));
        }
        const int take = i == kOthers - 1 ? 2 : 1;
        if (fed[i] + take > kOtherTokens) continue;
        batch.push_back(others[i].Next(std::span(other_tokens[i]).subspan(fed[i], take),
                                       i % 2 == 0 ? Logits::kNone : Logits::kLast));
        others[i].Advance(take);
        fed[i] += take;
      }
      ASSERT_TRUE(group->Run(batch).ok());
      const LogitRows rows = CopyLogits(*group);
      ASSERT_GE(rows.size(), wanted_before + chunk);
      for (size_t i = 0; i < chunk; ++i) logits.push_back(rows[wanted_before + i]);
      sequence.Advance(chunk);
      at += chunk;
    }
    EXPECT_TRUE(SameBits(logits, expected_)) << "degree " << degree;
  }
}

// What each rank tells its observer: the same bits on every rank, at every degree.
class ResidualRecorder : public LayerObserver {
 public:
  explicit ResidualRecorder(int hidden) : hidden_(hidden) {}
  void OnLayer(int layer, const float* residual, int stride, int rows) override {
    layers_.push_back(layer);
    for (int row = 0; row < rows; ++row) {
      values_.emplace_back(residual + row * stride, residual + row * stride + hidden_);
    }
  }
  const LogitRows& values() const { return values_; }
  const std::vector<int>& layers() const { return layers_; }

 private:
  int hidden_;
  std::vector<int> layers_;
  LogitRows values_;
};

TEST_P(ContractTest, ResidualsAgreeOnEveryRankAtEveryDegree) {
  LogitRows first;
  for (const int degree : {1, 2, 3}) {
    const auto group = New({.degree = degree});
    std::vector<ResidualRecorder> recorders(degree, ResidualRecorder(group->config().hidden));
    std::vector<LayerObserver*> observers;
    for (ResidualRecorder& recorder : recorders) observers.push_back(&recorder);
    const TestSequence sequence = Sequence(*group);
    const BatchSpan span = sequence.Next(std::span(tokens_).first(20), Logits::kNone);
    ASSERT_TRUE(group->Run({&span, 1}, observers).ok());
    EXPECT_EQ(group->forward(0).logit_rows(), 0);
    if (degree == 1) first = recorders[0].values();
    std::vector<int> layers(group->config().layers);
    std::iota(layers.begin(), layers.end(), 0);
    for (const ResidualRecorder& recorder : recorders) {
      EXPECT_THAT(recorder.layers(), testing::ElementsAreArray(layers));
      EXPECT_TRUE(SameBits(recorder.values(), first));
    }
  }
}

constexpr NumericsOptions kF32 = {.kv_dtype = DType::kF32};
constexpr NumericsOptions kQ8 = {.kv_dtype = DType::kF16, .activations = ActivationFormat::kQ8};

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, ContractTest,
    testing::Values(
        ContractCase{"Float", "models/llama_gqa_9_3", kF32, 50, 0x71b61732ac4c7a58},
        ContractCase{
            "Bias", "models/llama_bias", {.kv_dtype = DType::kF16}, 40, 0x2da91d2c05cd52e6},
        ContractCase{"Bf16",
                     "models_bf16/llama_gqa_bf16",
                     {.kv_dtype = DType::kBF16},
                     33,
                     0xb284c86f07b55204},
        // More positions than one split of attention.
        ContractCase{"LongF16",
                     "gguf/llama_rope3_f16/model.gguf",
                     {.kv_dtype = DType::kF16},
                     300,
                     0xda87b5c426a545c7},
        ContractCase{"Q8_0", "gguf/llama_q256/Q8_0.gguf", kQ8, 34, 0x7948e291d8c132e0},
        ContractCase{"Q8_0FloatActivations", "gguf/llama_q256/Q8_0.gguf", kF32, 20,
                     0xdf43aa2d01c2f677},
        ContractCase{"Q4_0", "gguf/llama_q256/Q4_0.gguf", kQ8, 34, 0x99265aa4e9445059,
                     "gguf/llama_q256/Q8_0.gguf"},
        ContractCase{"Q4_1", "gguf/llama_q256/Q4_1.gguf", kQ8, 34, 0x06717f1f8d7a7bf3,
                     "gguf/llama_q256/Q8_0.gguf"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace headway
