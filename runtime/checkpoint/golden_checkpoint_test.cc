// Every golden checkpoint, and the real model where it is there.

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/tensor/dtype.h"
#include "tests/shared_data.h"
#include "tests/test_model.h"

namespace headway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Shapes = std::map<std::string, std::vector<int64_t>>;

// Paths under tests/golden of the Hugging Face folders, or of the GGUF files.
std::vector<std::string> GoldenCheckpoints(Checkpoint::Kind kind) {
  std::vector<std::string> found;
  const std::string root = GoldenPath("");
  for (const char* family : {"models", "models_bf16", "gguf"}) {
    if ((kind == Checkpoint::Kind::kGguf) != (std::string_view(family) == "gguf")) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root + family)) {
      const std::filesystem::path path = entry.path();
      const bool is_one = kind == Checkpoint::Kind::kGguf ? path.extension() == ".gguf"
                                                          : path.filename() == "config.json";
      if (!is_one) continue;
      const auto checkpoint = kind == Checkpoint::Kind::kGguf ? path : path.parent_path();
      found.push_back(checkpoint.string().substr(root.size()));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string CaseName(const testing::TestParamInfo<std::string>& info) {
  std::string name;
  for (const char c : info.param) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

struct Llama {
  int64_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocabulary;
};

// The tensors that a llama of these sizes has, but for what differs between files.
Shapes HuggingFaceTensors(const Llama& m, const Metadata& metadata) {
  Shapes shapes = {{"model.embed_tokens.weight", {m.vocabulary, m.hidden}},
                   {"model.norm.weight", {m.hidden}}};
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    const auto linear = [&](const char* name, int64_t out, int64_t in, const char* bias_key) {
      shapes[absl::StrCat(layer, name, ".weight")] = {out, in};
      if (*metadata.Bool(bias_key)) shapes[absl::StrCat(layer, name, ".bias")] = {out};
    };
    linear("self_attn.q_proj", m.heads * m.head_dim, m.hidden, "attention_bias");
    linear("self_attn.k_proj", m.kv_heads * m.head_dim, m.hidden, "attention_bias");
    linear("self_attn.v_proj", m.kv_heads * m.head_dim, m.hidden, "attention_bias");
    linear("self_attn.o_proj", m.hidden, m.heads * m.head_dim, "attention_bias");
    linear("mlp.gate_proj", m.intermediate, m.hidden, "mlp_bias");
    linear("mlp.up_proj", m.intermediate, m.hidden, "mlp_bias");
    linear("mlp.down_proj", m.hidden, m.intermediate, "mlp_bias");
    shapes[layer + "input_layernorm.weight"] = {m.hidden};
    shapes[layer + "post_attention_layernorm.weight"] = {m.hidden};
  }
  return shapes;
}

Shapes GgufTensors(const Llama& m) {
  Shapes shapes = {{"token_embd.weight", {m.vocabulary, m.hidden}},
                   {"output_norm.weight", {m.hidden}}};
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string layer = absl::StrCat("blk.", i, ".");
    shapes[layer + "attn_q.weight"] = {m.heads * m.head_dim, m.hidden};
    shapes[layer + "attn_k.weight"] = {m.kv_heads * m.head_dim, m.hidden};
    shapes[layer + "attn_v.weight"] = {m.kv_heads * m.head_dim, m.hidden};
    shapes[layer + "attn_output.weight"] = {m.hidden, m.heads * m.head_dim};
    shapes[layer + "ffn_gate.weight"] = {m.intermediate, m.hidden};
    shapes[layer + "ffn_up.weight"] = {m.intermediate, m.hidden};
    shapes[layer + "ffn_down.weight"] = {m.hidden, m.intermediate};
    shapes[layer + "attn_norm.weight"] = {m.hidden};
    shapes[layer + "ffn_norm.weight"] = {m.hidden};
  }
  return shapes;
}

class HuggingFaceGoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(HuggingFaceGoldenTest, HasTheTensorsOfItsConfig) {
  const auto opened = Checkpoint::Open(GoldenPath(GetParam()));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Checkpoint& checkpoint = **opened;
  EXPECT_EQ(checkpoint.kind(), Checkpoint::Kind::kHuggingFace);
  const Metadata& m = checkpoint.metadata();
  EXPECT_EQ(*m.String("model_type"), "llama");
  const Llama llama = {
      *m.Int("num_hidden_layers"),   *m.Int("hidden_size"), *m.Int("num_attention_heads"),
      *m.Int("num_key_value_heads"), *m.Int("head_dim"),    *m.Int("intermediate_size"),
      *m.Int("vocab_size")};
  Shapes expected = HuggingFaceTensors(llama, m);
  const bool old = GetParam() == "models/llama_old_tensors";
  if (old || !*m.Bool("tie_word_embeddings")) {
    expected["lm_head.weight"] = {llama.vocabulary, llama.hidden};
  }
  if (old) {
    for (int64_t i = 0; i < llama.layers; ++i) {
      expected[absl::StrCat("model.layers.", i, ".self_attn.rotary_emb.inv_freq")] = {
          llama.head_dim / 2};
    }
  }
  const std::string dtype = *m.String("dtype");
  const DType wanted = dtype == "bfloat16"  ? DType::kBF16
                       : dtype == "float16" ? DType::kF16
                                            : DType::kF32;
  Shapes stored;
  int64_t bytes = 0;
  for (const std::string& name : checkpoint.TensorNames()) {
    EXPECT_TRUE(checkpoint.Has(name));
    const TensorRef tensor = *checkpoint.Tensor(name);
    EXPECT_EQ(tensor.name, name);
    EXPECT_EQ(tensor.dtype, wanted) << name;
    stored[name] = tensor.shape;
    bytes += tensor.rows() * RowBytes(tensor.dtype, tensor.columns());
  }
  EXPECT_EQ(stored, expected);
  EXPECT_GT(checkpoint.file_bytes(), bytes);
  EXPECT_LT(checkpoint.file_bytes(), bytes + 8192);
  EXPECT_EQ(checkpoint.SideFile("tokenizer.json").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(*checkpoint.SideFile("generation_config.json"), HasSubstr("eos_token_id"));
}

TEST_P(HuggingFaceGoldenTest, BothFormsOfItsConfigMeanTheSame) {
  const auto v5 = *Checkpoint::Open(GoldenPath(GetParam()));
  const auto v4 = *Checkpoint::Open(GoldenPathWithConfig(GetParam(), "config.v4.json"));
  const Metadata& a = v5->metadata();
  const Metadata& b = v4->metadata();
  for (const char* key :
       {"hidden_size", "intermediate_size", "max_position_embeddings", "num_attention_heads",
        "num_hidden_layers", "num_key_value_heads", "vocab_size", "bos_token_id", "eos_token_id"}) {
    EXPECT_EQ(*a.Int(key), *b.Int(key)) << key;
  }
  for (const char* key : {"attention_bias", "mlp_bias", "tie_word_embeddings"}) {
    EXPECT_EQ(*a.Bool(key), *b.Bool(key)) << key;
  }
  EXPECT_EQ(*a.Double("rms_norm_eps"), *b.Double("rms_norm_eps"));
  EXPECT_EQ(*a.String("dtype"), *b.String("torch_dtype"));
  EXPECT_EQ(*a.Strings("architectures"), *b.Strings("architectures"));
  EXPECT_EQ(*a.Double("rope_parameters.rope_theta"), *b.Double("rope_theta"));
  // Only a head dimension that does not follow from the others is written in the older form.
  EXPECT_EQ(*a.Int("head_dim"), b.Has("head_dim")
                                    ? *b.Int("head_dim")
                                    : *b.Int("hidden_size") / *b.Int("num_attention_heads"));
  const std::string type = *a.String("rope_parameters.rope_type");
  EXPECT_EQ(type == "default", !b.Has("rope_scaling"));
  if (type != "default") {
    const char* key = b.Has("rope_scaling.type") ? "rope_scaling.type" : "rope_scaling.rope_type";
    EXPECT_EQ(type, *b.String(key));
  }
  for (const char* key :
       {"factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow",
        "attention_factor", "mscale", "mscale_all_dim", "original_max_position_embeddings"}) {
    const std::string newer = absl::StrCat("rope_parameters.", key);
    const std::string older = absl::StrCat("rope_scaling.", key);
    ASSERT_EQ(a.Has(newer), b.Has(older)) << key;
    if (a.Has(newer)) {
      EXPECT_EQ(*a.Double(newer), *b.Double(older)) << key;
    }
  }
  // Same weights, other metadata: a cache of one must not serve the other by accident.
  EXPECT_NE(v5->digest(), v4->digest());
  EXPECT_EQ(v5->TensorNames(), v4->TensorNames());
}

INSTANTIATE_TEST_SUITE_P(All, HuggingFaceGoldenTest,
                         testing::ValuesIn(GoldenCheckpoints(Checkpoint::Kind::kHuggingFace)),
                         CaseName);

class GgufGoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GgufGoldenTest, HasTheTensorsOfItsKeys) {
  const auto opened = Checkpoint::Open(GoldenPath(GetParam()));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Checkpoint& checkpoint = **opened;
  EXPECT_EQ(checkpoint.kind(), Checkpoint::Kind::kGguf);
  const Metadata& m = checkpoint.metadata();
  EXPECT_EQ(*m.String("general.architecture"), "llama");
  const Llama llama = {*m.Int("llama.block_count"),
                       *m.Int("llama.embedding_length"),
                       *m.Int("llama.attention.head_count"),
                       *m.Int("llama.attention.head_count_kv"),
                       *m.Int("llama.attention.key_length"),
                       *m.Int("llama.feed_forward_length"),
                       *m.Int("llama.vocab_size")};
  Shapes expected = GgufTensors(llama);
  const bool quantised = GetParam().find("q256") != std::string::npos;
  const bool tied = quantised || GetParam().find("tied") != std::string::npos;
  if (!tied) expected["output.weight"] = {llama.vocabulary, llama.hidden};
  if (GetParam().find("rope3") != std::string::npos) {
    expected["rope_freqs.weight"] = {llama.head_dim / 2};
  }
  const std::map<int64_t, DType> of_file_type = {
      {0, DType::kF32}, {1, DType::kF16}, {2, DType::kQ4_0}, {3, DType::kQ4_1}, {7, DType::kQ8_0}};
  const DType matrices = of_file_type.at(*m.Int("general.file_type"));
  Shapes stored;
  for (const std::string& name : checkpoint.TensorNames()) {
    const absl::StatusOr<TensorRef> tensor = checkpoint.Tensor(name);
    if (quantised && name == "token_embd.weight" && matrices != DType::kQ8_0) {
      EXPECT_EQ(tensor.status(),
                absl::InvalidArgumentError(absl::StrCat(
                    GoldenPath(GetParam()),
                    ": tensor 'token_embd.weight' is stored as Q6_K; the "
                    "types that can be used are F32, F16, BF16, Q8_0, Q4_0 and Q4_1")));
      stored[name] = expected[name];
      continue;
    }
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->dtype, tensor->shape.size() == 1 ? DType::kF32 : matrices) << name;
    stored[name] = tensor->shape;
  }
  EXPECT_EQ(stored, expected);
  EXPECT_EQ(static_cast<int64_t>(m.Strings("tokenizer.ggml.tokens")->size()), llama.vocabulary);
  EXPECT_EQ(static_cast<int64_t>(m.Ints("tokenizer.ggml.token_type")->size()), llama.vocabulary);
  EXPECT_EQ(m.Strings("tokenizer.ggml.merges")->front(), "Ġ t");
  EXPECT_FALSE(*m.Bool("tokenizer.ggml.add_bos_token"));
  EXPECT_EQ(*m.Double("llama.rope.freq_base"), 10000);
  EXPECT_EQ(checkpoint.SideFile("config.json").status().code(), absl::StatusCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(All, GgufGoldenTest,
                         testing::ValuesIn(GoldenCheckpoints(Checkpoint::Kind::kGguf)), CaseName);

TEST(GoldenCheckpointsTest, AllAreThere) {
  EXPECT_EQ(GoldenCheckpoints(Checkpoint::Kind::kHuggingFace).size(), 15u);
  EXPECT_EQ(GoldenCheckpoints(Checkpoint::Kind::kGguf).size(), 8u);
}

// Single values, read out of the files by other means.
TEST(GoldenCheckpointsTest, TensorsPointAtTheirValues) {
  const auto load = [](const std::byte* p, auto value) {
    std::memcpy(&value, p, sizeof(value));
    return value;
  };
  const auto biased = *Checkpoint::Open(GoldenPath("models/llama_bias"));
  const TensorRef bias = *biased->Tensor("model.layers.1.self_attn.q_proj.bias");
  EXPECT_EQ(bias.rows(), 1);
  EXPECT_EQ(bias.columns(), 60);
  EXPECT_EQ(load(bias.row(0) + 4 * 4, 0.0f), 0.14515061676502228f);

  const auto bf16 = *Checkpoint::Open(GoldenPath("models_bf16/llama_gqa_bf16"));
  const TensorRef up = *bf16->Tensor("model.layers.2.mlp.up_proj.weight");
  EXPECT_EQ(load(up.row(5) + 2 * 7, uint16_t{}), 16038);

  const auto gguf = *Checkpoint::Open(GoldenPath("gguf/llama_f32/model.gguf"));
  const TensorRef down = *gguf->Tensor("blk.1.ffn_down.weight");
  EXPECT_EQ(load(down.row(2) + 4 * 3, 0.0f), -0.05001092702150345f);

  const auto q8 = *Checkpoint::Open(GoldenPath("gguf/llama_q256/Q8_0.gguf"));
  const TensorRef quantised = *q8->Tensor("blk.1.ffn_down.weight");
  EXPECT_EQ(load(quantised.row(3), uint16_t{}), 0x18ca);
  EXPECT_EQ(load(quantised.row(3) + 33, int8_t{}), 0x47);
}

TEST(TestModelCheckpointTest, IsRead) {
  const std::optional<std::string> path = TestModelPath();
  if (!path) GTEST_SKIP() << "run deploy/fetch-model, then bazel sync --configure";
  const auto opened = Checkpoint::Open(*path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Checkpoint& checkpoint = **opened;
  const Metadata& m = checkpoint.metadata();
  EXPECT_EQ(checkpoint.file_bytes(), 98362432);
  // The file names neither key length nor value length; heads are hidden / head_count = 64.
  Shapes expected = GgufTensors({30, 576, 9, 3, 64, 1536, 49152});
  Shapes stored;
  std::map<DType, int> types;
  for (const std::string& name : checkpoint.TensorNames()) {
    const TensorRef tensor = *checkpoint.Tensor(name);
    stored[name] = tensor.shape;
    ++types[tensor.dtype];
  }
  EXPECT_EQ(stored, expected);
  EXPECT_EQ(types,
            (std::map<DType, int>{{DType::kQ4_1, 210}, {DType::kF32, 61}, {DType::kQ8_0, 1}}));
  EXPECT_EQ(checkpoint.Tensor("token_embd.weight")->dtype, DType::kQ8_0);
  const std::vector<std::string> tokens = *m.Strings("tokenizer.ggml.tokens");
  EXPECT_EQ(tokens.size(), 49152u);
  EXPECT_EQ(tokens[1], "<|im_start|>");
  EXPECT_EQ(tokens.back(), "ectable");
  EXPECT_EQ(m.Strings("tokenizer.ggml.merges")->back(), "ect able");
  EXPECT_EQ(*m.Double("llama.rope.freq_base"), 100000);
}

}  // namespace
}  // namespace headway
