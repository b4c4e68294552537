// Logits and greedy continuations of tiny checkpoints, against another implementation's.

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/model/rank_group.h"
#include "tests/golden_tensors.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

struct GoldenCase {
  std::string name;      // of the test
  std::string model;     // under tests/golden: a file, or a folder
  std::string expected;  // likewise
  bool older_config = false;
};

void PrintTo(const GoldenCase& golden, std::ostream* out) { *out << golden.name; }

std::string ModelPath(const GoldenCase& golden) {
  return golden.older_config ? GoldenPathWithConfig(golden.model, "config.v4.json")
                             : GoldenPath(golden.model);
}

// Row `b` of a [B, T] tensor.
std::span<const int32_t> Row(const GoldenTensor& tensor, int b) {
  return std::span(tensor.ints).subspan(b * tensor.shape[1], tensor.shape[1]);
}

// The largest deviation of logits from the golden [B, T, V] ones of sequence `b`.
double Deviation(const LogitRows& logits, const GoldenTensor& golden, int b) {
  const int64_t positions = golden.shape[1], vocabulary = golden.shape[2];
  EXPECT_EQ(static_cast<int64_t>(logits.size()), positions);
  double largest = 0;
  for (int64_t t = 0; t < positions; ++t) {
    EXPECT_EQ(static_cast<int64_t>(logits[t].size()), vocabulary);
    for (int64_t v = 0; v < vocabulary; ++v) {
      const double difference =
          std::abs(logits[t][v] - golden.floats[(b * positions + t) * vocabulary + v]);
      // NaN must not pass.
      largest = difference <= largest ? largest : difference;
      EXPECT_TRUE(std::isfinite(logits[t][v]));
    }
  }
  return largest;
}

class GoldenTest : public testing::TestWithParam<GoldenCase> {};

// Activations and KV in float32, at every degree: within the tolerance at one, the same bits at
// all.
TEST_P(GoldenTest, LogitsAndGreedyTokens) {
  const GoldenTensors expected = ReadGolden(GoldenPath(GetParam().expected));
  const GoldenTensor& ids = expected.at("ids");
  const double tolerance = expected.at("tolerance").floats[0];
  const auto checkpoint = Checkpoint::Open(ModelPath(GetParam()));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();

  std::vector<LogitRows> first(ids.shape[0]);
  int groups = 1;
  for (int degree = 1; degree <= groups; ++degree) {
    SCOPED_TRACE(testing::Message() << "degree " << degree);
    const auto group = RankGroup::Create(**checkpoint, {.degree = degree});
    ASSERT_TRUE(group.ok()) << group.status();
    if (!GetParam().older_config) groups = (*group)->plan().attention_groups();
    for (int b = 0; b < ids.shape[0]; ++b) {
      SCOPED_TRACE(testing::Message() << "sequence " << b);
      const LogitRows logits = TestSequence(**group, 4).Feed(Row(ids, b), 64);
      if (degree == 1) {
        first[b] = logits;
        EXPECT_LE(Deviation(logits, expected.at("logits"), b), tolerance);
      } else {
        EXPECT_TRUE(SameBits(logits, first[b]));
      }
      if (degree == 1 || degree == groups) {
        EXPECT_THAT(TestSequence(**group, 4).Greedy(Row(ids, b).first(8), 24),
                    testing::ElementsAreArray(Row(expected.at("greedy"), b)));
      }
    }
  }
}

std::vector<GoldenCase> Cases() {
  std::vector<GoldenCase> cases;
  for (const char* folder :
       {"models/llama_bias", "models/llama_gqa_9_3", "models/llama_head_dim",
        "models/llama_mha_5_5", "models/llama_mqa_8_1", "models/llama_old_tensors",
        "models/llama_rope_linear", "models/llama_rope_llama3", "models/llama_rope_yarn",
        "models/llama_rope_yarn_attn", "models/llama_rope_yarn_mscale", "models/llama_tied_6_2",
        "models_bf16/llama_gqa_bf16", "models_bf16/llama_gqa_f16"}) {
    const std::string path = folder, name = path.substr(path.find('/') + 1);
    const std::string expected = path + "/expected.safetensors";
    cases.push_back({name, path, expected});
    cases.push_back({name + "_older_config", path, expected, true});
  }
  for (const char* name :
       {"llama_f32", "llama_linear_f16", "llama_rope3_f16", "llama_tied_f16", "llama_yarn_f16"}) {
    const std::string folder = std::string("gguf/") + name;
    cases.push_back(
        {std::string("gguf_") + name, folder + "/model.gguf", folder + "/expected.safetensors"});
  }
  cases.push_back(
      {"gguf_q256_Q8_0", "gguf/llama_q256/Q8_0.gguf", "gguf/llama_q256/Q8_0.expected.safetensors"});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, GoldenTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// 8-bit activations move the logits of random weights by up to 4 % of their range: 1.0.
TEST(GoldenEightBitTest, LogitsStayNear) {
  const GoldenTensors expected =
      ReadGolden(GoldenPath("gguf/llama_q256/Q8_0.expected.safetensors"));
  const GoldenTensor& ids = expected.at("ids");
  const GoldenTensor& margin = expected.at("greedy_margin");
  const auto checkpoint = Checkpoint::Open(GoldenPath("gguf/llama_q256/Q8_0.gguf"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto group = RankGroup::Create(
      **checkpoint,
      {.degree = 3,
       .numerics = {.kv_dtype = DType::kF32, .activations = kernels::ActivationFormat::kQ8}});
  ASSERT_TRUE(group.ok()) << group.status();
  for (int b = 0; b < ids.shape[0]; ++b) {
    const LogitRows logits = TestSequence(**group, 4).Feed(Row(ids, b), 64);
    const double deviation = Deviation(logits, expected.at("logits"), b);
    EXPECT_LE(deviation, 1.0);
    EXPECT_GT(deviation, 0.01) << "activations were not rounded to 8 bits";
    // A greedy token must agree while the margin exceeds what the noise of two logits can move.
    const auto greedy = TestSequence(**group, 4).Greedy(Row(ids, b).first(8), 24);
    for (int k = 0; k < 24 && margin.floats[b * 24 + k] > 2 * deviation; ++k) {
      EXPECT_EQ(greedy[k], Row(expected.at("greedy"), b)[k]) << "step " << k;
    }
  }
}

}  // namespace
}  // namespace headway
