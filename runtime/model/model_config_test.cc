#include "runtime/model/model_config.h"

#include <cmath>
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/model/overlay_checkpoint.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = RopeConfig::Kind;

std::unique_ptr<Checkpoint> Open(const std::string& path) {
  auto checkpoint = Checkpoint::Open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  return *std::move(checkpoint);
}

std::unique_ptr<Checkpoint> Golden(const std::string& relative) {
  return Open(GoldenPath(relative));
}

ModelConfig Read(const Checkpoint& checkpoint) {
  auto config = ReadModelConfig(checkpoint);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *std::move(config) : ModelConfig();
}

TEST(ModelConfigTest, ReadsAHuggingFaceFolder) {
  const ModelConfig config = Read(*Golden("models/llama_head_dim"));
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.hidden, 54);
  EXPECT_EQ(config.query_heads, 6);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.vocabulary, 191);
  EXPECT_EQ(config.max_positions, 512);
  EXPECT_DOUBLE_EQ(config.rms_epsilon, 1e-5);
  EXPECT_EQ(config.rope.kind, Kind::kPlain);
  EXPECT_EQ(config.rope.theta, 10000);
  EXPECT_FALSE(config.tied_embedding);
  EXPECT_FALSE(config.attention_bias || config.attention_output_bias || config.mlp_bias);
  EXPECT_FALSE(config.rope_rows_interleaved);
  EXPECT_EQ(config.output_weight, DType::kF32);
  EXPECT_EQ(config.down_weight, DType::kF32);
  EXPECT_THAT(config.eos_tokens, ElementsAre(2));
}

TEST(ModelConfigTest, ReadsGguf) {
  const ModelConfig config = Read(*Golden("gguf/llama_q256/Q8_0.gguf"));
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.hidden, 256);
  EXPECT_EQ(config.intermediate, 256);
  EXPECT_EQ(config.query_heads, 8);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 32);
  EXPECT_EQ(config.vocabulary, 320);
  EXPECT_EQ(config.max_positions, 512);
  EXPECT_TRUE(config.tied_embedding);
  EXPECT_TRUE(config.rope_rows_interleaved);
  EXPECT_EQ(config.output_weight, DType::kQ8_0);
  EXPECT_EQ(config.lm_head_weight, DType::kQ8_0);
  EXPECT_THAT(config.eos_tokens, ElementsAre(1));
  EXPECT_FALSE(Read(*Golden("gguf/llama_f32/model.gguf")).tied_embedding);
}

TEST(ModelConfigTest, ReadsBiases) {
  const ModelConfig config = Read(*Golden("models/llama_bias"));
  EXPECT_TRUE(config.attention_bias && config.attention_output_bias && config.mlp_bias);
  EXPECT_DOUBLE_EQ(config.rms_epsilon, 0.03);

  // GGUF has no key: the tensors say it.
  const auto base = Golden("gguf/llama_f32/model.gguf");
  OverlayCheckpoint gguf(*base);
  gguf.SetTensor("blk.0.attn_q.bias", {54}, std::vector<float>(54));
  EXPECT_TRUE(Read(gguf).attention_bias);
  EXPECT_FALSE(Read(gguf).attention_output_bias);
  gguf.SetTensor("blk.0.ffn_down.bias", {54}, std::vector<float>(54));
  EXPECT_TRUE(Read(gguf).mlp_bias);
}

TEST(ModelConfigTest, OneQuantisedLayerDecidesTheCut) {
  const auto base = Golden("gguf/llama_q256/Q8_0.gguf");
  OverlayCheckpoint mixed(*base);
  mixed.SetTensor("blk.0.attn_output.weight", {256, 256}, std::vector<float>(256 * 256));
  EXPECT_EQ(Read(mixed).output_weight, DType::kQ8_0);
  mixed.SetTensor("blk.1.attn_output.weight", {256, 256}, std::vector<float>(256 * 256));
  EXPECT_EQ(Read(mixed).output_weight, DType::kF32);
}

bool SameRope(const RopeConfig& a, const RopeConfig& b) {
  return a.kind == b.kind && a.theta == b.theta && a.factor == b.factor &&
         a.low_freq_factor == b.low_freq_factor && a.high_freq_factor == b.high_freq_factor &&
         a.original_max_positions == b.original_max_positions && a.beta_fast == b.beta_fast &&
         a.beta_slow == b.beta_slow && a.attention_factor == b.attention_factor &&
         a.truncate == b.truncate && a.frequency_divisors == b.frequency_divisors;
}

TEST(ModelConfigTest, OlderConfigsMeanTheSame) {
  for (const char* model : {"llama_bias", "llama_gqa_9_3", "llama_head_dim", "llama_old_tensors",
                            "llama_rope_linear", "llama_rope_llama3", "llama_rope_yarn",
                            "llama_rope_yarn_attn", "llama_rope_yarn_mscale", "llama_tied_6_2"}) {
    SCOPED_TRACE(model);
    const std::string folder = std::string("models/") + model;
    const ModelConfig newer = Read(*Golden(folder));
    const ModelConfig older = Read(*Open(GoldenPathWithConfig(folder, "config.v4.json")));
    EXPECT_TRUE(SameRope(newer.rope, older.rope));
    EXPECT_EQ(newer.head_dim, older.head_dim);
    EXPECT_EQ(newer.kv_heads, older.kv_heads);
    EXPECT_EQ(newer.tied_embedding, older.tied_embedding);
    EXPECT_EQ(newer.attention_bias, older.attention_bias);
    EXPECT_EQ(newer.mlp_bias, older.mlp_bias);
  }
}

TEST(ModelConfigTest, ReadsRopeScalings) {
  const RopeConfig linear = Read(*Golden("models/llama_rope_linear")).rope;
  EXPECT_EQ(linear.kind, Kind::kLinear);
  EXPECT_EQ(linear.factor, 4);

  const RopeConfig llama3 = Read(*Golden("models/llama_rope_llama3")).rope;
  EXPECT_EQ(llama3.kind, Kind::kLlama3);
  EXPECT_EQ(llama3.factor, 8);
  EXPECT_EQ(llama3.low_freq_factor, 1);
  EXPECT_EQ(llama3.high_freq_factor, 4);
  EXPECT_EQ(llama3.original_max_positions, 64);

  const RopeConfig yarn = Read(*Golden("models/llama_rope_yarn_mscale")).rope;
  EXPECT_EQ(yarn.kind, Kind::kYarn);
  EXPECT_EQ(yarn.factor, 8);
  EXPECT_EQ(yarn.original_max_positions, 32);
  EXPECT_EQ(yarn.beta_fast, 4);
  EXPECT_FALSE(yarn.truncate);
  EXPECT_NEAR(yarn.attention_factor, (0.07 * std::log(8) + 1) / (0.14 * std::log(8) + 1), 1e-12);
  EXPECT_NEAR(Read(*Golden("models/llama_rope_yarn")).rope.attention_factor, 0.1 * std::log(4) + 1,
              1e-12);
  EXPECT_EQ(Read(*Golden("models/llama_rope_yarn_attn")).rope.attention_factor, 1.3);

  const RopeConfig gguf_yarn = Read(*Golden("gguf/llama_yarn_f16/model.gguf")).rope;
  EXPECT_EQ(gguf_yarn.kind, Kind::kYarn);
  EXPECT_EQ(gguf_yarn.original_max_positions, 32);
  EXPECT_NEAR(gguf_yarn.attention_factor, 0.1 * std::log(4) + 1, 1e-12);
  EXPECT_EQ(Read(*Golden("gguf/llama_linear_f16/model.gguf")).rope.factor, 4);
  const RopeConfig gguf_llama3 = Read(*Golden("gguf/llama_rope3_f16/model.gguf")).rope;
  EXPECT_EQ(gguf_llama3.kind, Kind::kPlain);
  EXPECT_EQ(gguf_llama3.frequency_divisors.size(), 8u);
}

TEST(ModelConfigTest, TheKindOfRopeHasTwoKeys) {
  const auto base = Golden("models/llama_rope_llama3");
  const RopeConfig expected = Read(*base).rope;
  for (const std::string prefix : {"rope_scaling.", "rope_parameters."}) {
    for (const char* key : {"type", "rope_type"}) {
      OverlayCheckpoint checkpoint(*base);
      checkpoint.Remove(prefix == "rope_scaling." ? "rope_parameters"
                                                  : "rope_parameters.rope_type");
      checkpoint.Set("rope_theta", expected.theta);
      checkpoint.Set(prefix + "factor", expected.factor);
      checkpoint.Set(prefix + "low_freq_factor", expected.low_freq_factor);
      checkpoint.Set(prefix + "high_freq_factor", expected.high_freq_factor);
      checkpoint.Set(prefix + "original_max_position_embeddings", expected.original_max_positions);
      checkpoint.Set(prefix + key, std::string("llama3"));
      EXPECT_TRUE(SameRope(Read(checkpoint).rope, expected)) << prefix << key;
      checkpoint.Set(prefix + key, std::string("spiral"));
      EXPECT_THAT(std::string(ReadModelConfig(checkpoint).status().message()),
                  AllOf(HasSubstr(prefix + key), HasSubstr("spiral")));
    }
  }
}

TEST(ModelConfigTest, YarnAttentionFactorPrecedence) {
  const auto base = Golden("models/llama_rope_yarn_mscale");
  OverlayCheckpoint checkpoint(*base);
  const std::string prefix = "rope_parameters.";
  const double magnitude = 0.1 * std::log(8) + 1;
  // One of the two mscales alone says nothing, nor does a zero.
  checkpoint.Remove(prefix + "mscale_all_dim");
  EXPECT_NEAR(Read(checkpoint).rope.attention_factor, magnitude, 1e-12);
  checkpoint.Set(prefix + "mscale_all_dim", 0.0);
  EXPECT_NEAR(Read(checkpoint).rope.attention_factor, magnitude, 1e-12);
  checkpoint.Set(prefix + "mscale_all_dim", 0.5);
  checkpoint.Set(prefix + "attention_factor", 1.75);
  EXPECT_EQ(Read(checkpoint).rope.attention_factor, 1.75);
  // Without a factor: the ratio of the lengths.
  checkpoint.Remove(prefix + "factor");
  EXPECT_EQ(Read(checkpoint).rope.factor, 256 / 32);

  const auto gguf_base = Golden("gguf/llama_yarn_f16/model.gguf");
  OverlayCheckpoint gguf(*gguf_base);
  gguf.Set("llama.rope.scaling.attn_factor", 2.0);
  EXPECT_NEAR(Read(gguf).rope.attention_factor, 2 * (0.1 * std::log(4) + 1), 1e-12);
  gguf.Set("llama.rope.scaling.yarn_log_multiplier", 1.0);
  EXPECT_NEAR(Read(gguf).rope.attention_factor, 2.0, 1e-12);
}

TEST(ModelConfigTest, TiesOnlyWhereSaid) {
  const auto base = Golden("models/llama_tied_6_2");
  EXPECT_TRUE(Read(*base).tied_embedding);
  OverlayCheckpoint silent(*base);
  silent.Remove("tie_word_embeddings");
  // Absent means untied in this family, so lm_head.weight is missing.
  const auto config = ReadModelConfig(silent);
  EXPECT_EQ(config.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("lm_head.weight"));
}

TEST(ModelConfigTest, CollectsEndTokens) {
  const auto base = Golden("models/llama_gqa_9_3");
  OverlayCheckpoint checkpoint(*base);
  checkpoint.Set("eos_token_id", std::vector<int64_t>{7, 5, -1});
  checkpoint.SetSideFile("generation_config.json", R"({"eos_token_id": [5, 9]})");
  EXPECT_THAT(Read(checkpoint).eos_tokens, ElementsAre(5, 7, 9));
  checkpoint.SetSideFile("generation_config.json", R"({"eos_token_id": 11)");  // malformed: no help
  EXPECT_THAT(Read(checkpoint).eos_tokens, ElementsAre(5, 7));
  checkpoint.Remove("eos_token_id");
  EXPECT_THAT(Read(checkpoint).eos_tokens, ElementsAre());

  const auto gguf_base = Golden("gguf/llama_f32/model.gguf");
  OverlayCheckpoint gguf(*gguf_base);
  gguf.Set("tokenizer.ggml.eot_token_id", int64_t{4});
  EXPECT_THAT(Read(gguf).eos_tokens, ElementsAre(1, 4));
}

TEST(ModelConfigTest, AnEndTokenBeyondTheVocabularyIsAnError) {
  const auto base = Golden("models/llama_gqa_9_3");
  const int64_t beyond = Read(*base).vocabulary;
  OverlayCheckpoint checkpoint(*base);
  checkpoint.Set("eos_token_id", beyond - 1);
  EXPECT_TRUE(ReadModelConfig(checkpoint).ok());
  const std::string id = std::to_string(beyond);
  checkpoint.SetSideFile("generation_config.json", "{\"eos_token_id\": [5, " + id + "]}");
  EXPECT_THAT(std::string(ReadModelConfig(checkpoint).status().message()),
              HasSubstr("generation_config.json names token " + id));
  checkpoint.Set("eos_token_id", beyond);
  EXPECT_THAT(
      std::string(ReadModelConfig(checkpoint).status().message()),
      HasSubstr("eos_token_id names token " + id + ", but the model's vocabulary has " + id));
}

TEST(ModelConfigTest, AcceptsWhatChangesNothing) {
  const auto base = Golden("models/llama_gqa_9_3");
  OverlayCheckpoint checkpoint(*base);
  checkpoint.Set("sliding_window", int64_t{512});  // as long as the longest sequence
  checkpoint.Set("num_local_experts", int64_t{0});
  checkpoint.Set("partial_rotary_factor", 1.0);
  Read(checkpoint);
  checkpoint.Set("sliding_window", int64_t{8});
  checkpoint.Set("use_sliding_window", false);
  Read(checkpoint);
  checkpoint.Remove("num_key_value_heads");  // as many as query heads
  EXPECT_EQ(Read(checkpoint).kv_heads, 9);

  const auto gguf_base = Golden("gguf/llama_f32/model.gguf");
  OverlayCheckpoint gguf(*gguf_base);
  gguf.Set("llama.expert_count", int64_t{0});
  gguf.Set("llama.rope.scaling.type", std::string("none"));
  EXPECT_EQ(Read(gguf).rope.kind, Kind::kPlain);
  gguf.Remove("llama.rope.scaling.type");
  gguf.Set("llama.rope.scale_linear", 2.0);
  EXPECT_EQ(Read(gguf).rope.kind, Kind::kLinear);
}

// One change of a good checkpoint each, and what the error must name.
struct BadCase {
  std::string name;
  std::string model;
  std::function<void(OverlayCheckpoint&)> change;
  absl::StatusCode code;
  std::vector<std::string> named;
};

void PrintTo(const BadCase& bad, std::ostream* out) { *out << bad.name; }

class BadConfigTest : public testing::TestWithParam<BadCase> {};

TEST_P(BadConfigTest, OneClearError) {
  const auto base = Golden(GetParam().model);
  OverlayCheckpoint checkpoint(*base);
  GetParam().change(checkpoint);
  const auto config = ReadModelConfig(checkpoint);
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), GetParam().code) << config.status();
  for (const std::string& part : GetParam().named) {
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(part));
  }
}

BadCase Setting(std::string name, std::string model, std::string key,
                OverlayCheckpoint::Value value, std::vector<std::string> named) {
  named.push_back(key);
  return {std::move(name), std::move(model),
          [key, value](OverlayCheckpoint& c) { c.Set(key, value); },
          absl::StatusCode::kInvalidArgument, std::move(named)};
}

BadCase Missing(std::string name, std::string model, std::string key) {
  return {std::move(name),
          std::move(model),
          [key](OverlayCheckpoint& c) { c.Remove(key); },
          absl::StatusCode::kNotFound,
          {key}};
}

std::vector<BadCase> BadCases() {
  const std::string hf = "models/llama_gqa_9_3", gguf = "gguf/llama_f32/model.gguf";
  const std::string yarn = "models/llama_rope_yarn", llama3 = "models/llama_rope_llama3";
  const auto text = [](const char* t) { return std::string(t); };
  const auto number = [](int64_t n) { return n; };
  std::vector<BadCase> cases = {
      Setting("Architecture", hf, "architectures", std::vector<std::string>{"MambaForCausalLM"},
              {"MambaForCausalLM", "LlamaForCausalLM"}),
      // Its layers have windows.
      Setting("WindowedFamily", hf, "architectures", std::vector<std::string>{"MistralForCausalLM"},
              {"MistralForCausalLM"}),
      // Their Q and K rows are stored in another order.
      Setting("GgufQwen2", gguf, "general.architecture", text("qwen2"), {"qwen2"}),
      Setting("GgufQwen3", gguf, "general.architecture", text("qwen3"), {"qwen3"}),
      Setting("NoArchitecture", hf, "architectures", std::vector<std::string>{}, {"''"}),
      Setting("GgufArchitecture", gguf, "general.architecture", text("mamba"), {"mamba", "llama"}),
      Setting("Activation", hf, "hidden_act", text("gelu"), {"gelu", "silu"}),
      Setting("Experts", gguf, "llama.expert_count", number(4), {"4", "experts"}),
      Setting("NotCausal", gguf, "llama.attention.causal", false, {"false"}),
      Setting("QuantisedFolder", hf, "quantization_config", text("x"), {"GGUF"}),
      Setting("Window", hf, "sliding_window", number(8), {"8", "sliding windows"}),
      Setting("GgufWindow", gguf, "llama.attention.sliding_window", number(100), {"100"}),
      Setting("ZeroLayers", hf, "num_hidden_layers", number(0), {"0", "from 1 to 1024"}),
      Setting("NegativeHeads", hf, "num_attention_heads", number(-9), {"-9"}),
      Setting("HugeHidden", hf, "hidden_size", number(int64_t{1} << 40), {"1099511627776"}),
      Setting("HugeIntermediate", gguf, "llama.feed_forward_length", number(1 << 21), {"2097152"}),
      Setting("NoPositions", hf, "max_position_embeddings", number(0), {"0"}),
      Setting("KvHeads", hf, "num_key_value_heads", number(2), {"2", "9", "num_attention_heads"}),
      Setting("KvHeadsAboveHeads", gguf, "llama.attention.head_count_kv", number(18), {"18", "9"}),
      Setting("OddHead", hf, "head_dim", number(7), {"7", "even"}),
      Setting("HugeHead", hf, "head_dim", number(2000), {"2000"}),
      Setting("ValueLength", gguf, "llama.attention.value_length", number(8), {"8", "6"}),
      Setting("Epsilon", hf, "rms_norm_eps", -1.0, {"-1"}),
      Setting("EpsilonNan", hf, "rms_norm_eps", std::nan(""), {"nan"}),
      Setting("Vocabulary", hf, "vocab_size", number(164), {"model.embed_tokens.weight", "164"}),
      Setting("PartialRope", hf, "rope_parameters.partial_rotary_factor", 0.5, {"0.5"}),
      Setting("GgufPartialRope", gguf, "llama.rope.dimension_count", number(4), {"4", "6"}),
      Setting("Theta", hf, "rope_parameters.rope_theta", -10000.0, {"-10000"}),
      Setting("RopeKind", hf, "rope_parameters.rope_type", text("spiral"), {"spiral", "llama3"}),
      Setting("GgufRopeKind", gguf, "llama.rope.scaling.type", text("longrope"),
              {"longrope", "later tokens"}),
      Setting("Longrope", hf, "rope_parameters.rope_type", text("longrope"), {"later tokens"}),
      Setting("FactorZero", yarn, "rope_parameters.factor", 0.0, {"0"}),
      Setting("BetaZero", yarn, "rope_parameters.beta_slow", 0.0, {"0"}),
      Setting("Bands", llama3, "rope_parameters.high_freq_factor", 0.5,
              {"0.5", "rope_parameters.low_freq_factor"}),
      Setting("YarnExtension", "gguf/llama_yarn_f16/model.gguf",
              "llama.rope.scaling.yarn_ext_factor", 0.5, {"0.5"}),
      Missing("MissingLayers", hf, "num_hidden_layers"),
      Missing("MissingGgufHeads", gguf, "llama.attention.head_count"),
      Missing("MissingArchitecture", gguf, "general.architecture"),
      Missing("MissingEpsilon", hf, "rms_norm_eps"),
      Missing("MissingBand", llama3, "rope_parameters.low_freq_factor"),
      Missing("MissingLinearFactor", "models/llama_rope_linear", "rope_parameters.factor"),
      Missing("MissingGgufFactor", "gguf/llama_linear_f16/model.gguf", "llama.rope.scaling.factor"),
  };
  cases.push_back(
      {"MissingTensor",
       hf,
       [](OverlayCheckpoint& c) { c.RemoveTensor("model.layers.1.self_attn.o_proj.weight"); },
       absl::StatusCode::kNotFound,
       {"model.layers.1.self_attn.o_proj.weight"}});
  // As in a file that holds a vocabulary alone.
  cases.push_back({"NoEmbedding",
                   gguf,
                   [](OverlayCheckpoint& c) { c.RemoveTensor("token_embd.weight"); },
                   absl::StatusCode::kNotFound,
                   {"token_embd.weight"}});
  cases.push_back(
      {"EmbeddingWidth",
       hf,
       [](OverlayCheckpoint& c) {
         c.SetTensor("model.embed_tokens.weight", {163, 50}, std::vector<float>(163 * 50));
       },
       absl::StatusCode::kInvalidArgument,
       {"model.embed_tokens.weight", "[163, 50]", "54]"}});
  cases.push_back({"HeadsDoNotDivideHidden",
                   hf,
                   [](OverlayCheckpoint& c) {
                     c.Remove("head_dim");
                     c.Set("num_attention_heads", int64_t{12});
                   },
                   absl::StatusCode::kInvalidArgument,
                   {"num_attention_heads", "12", "54"}});
  cases.push_back({"RopeDivisors",
                   "gguf/llama_rope3_f16/model.gguf",
                   [](OverlayCheckpoint& c) {
                     c.SetTensor("rope_freqs.weight", {7}, std::vector<float>(7, 1));
                   },
                   absl::StatusCode::kInvalidArgument,
                   {"rope_freqs.weight", "8"}});
  cases.push_back({"RopeDivisorZero",
                   "gguf/llama_rope3_f16/model.gguf",
                   [](OverlayCheckpoint& c) {
                     c.SetTensor("rope_freqs.weight", {8}, std::vector<float>(8, 0));
                   },
                   absl::StatusCode::kInvalidArgument,
                   {"rope_freqs.weight"}});
  cases.push_back({"Dynamic",
                   "models/llama_rope_dynamic",
                   [](OverlayCheckpoint&) {},
                   absl::StatusCode::kInvalidArgument,
                   {"rope_parameters.rope_type", "dynamic", "later tokens"}});
  cases.push_back({"ScalingWithoutType",
                   hf,
                   [](OverlayCheckpoint& c) {
                     c.Remove("rope_parameters");
                     c.Set("rope_scaling.factor", 2.0);
                   },
                   absl::StatusCode::kNotFound,
                   {"rope_scaling.rope_type"}});
  cases.push_back({"OlderTypeKey",
                   hf,
                   [](OverlayCheckpoint& c) {
                     c.Remove("rope_parameters");
                     c.Set("rope_scaling.type", std::string("dynamic"));
                   },
                   absl::StatusCode::kInvalidArgument,
                   {"rope_scaling.type", "dynamic"}});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Changes, BadConfigTest, testing::ValuesIn(BadCases()),
                         [](const auto& info) { return info.param.name; });

// The quantised types of other makers are refused by name when their tensor is asked for.
TEST(ModelConfigTest, NamesATensorOfAnUnknownType) {
  const auto config = ReadModelConfig(*Golden("gguf/llama_q256/Q4_0.gguf"));
  EXPECT_THAT(std::string(config.status().message()),
              AllOf(HasSubstr("token_embd.weight"), HasSubstr("Q6_K")));
}

}  // namespace
}  // namespace headway
