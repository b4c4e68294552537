#include "runtime/model/weights.h"

#include <cmath>
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ops.h"
#include "runtime/model/overlay_checkpoint.h"
#include "runtime/model/rank_group.h"
#include "runtime/tensor/block_formats.h"
#include "runtime/tensor/half.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

using testing::HasSubstr;
using Matrix = std::vector<std::vector<float>>;

std::unique_ptr<Checkpoint> Golden(const std::string& relative) {
  auto checkpoint = Checkpoint::Open(GoldenPath(relative));
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  return *std::move(checkpoint);
}

std::unique_ptr<Weights> Load(const Checkpoint& checkpoint, int degree, int rank,
                              ShardPlan* plan_out = nullptr) {
  const auto config = ReadModelConfig(checkpoint);
  EXPECT_TRUE(config.ok()) << config.status();
  const auto plan = MakeShardPlan(*config, degree);
  EXPECT_TRUE(plan.ok()) << plan.status();
  auto weights = Weights::Load(checkpoint, *config, *plan, rank);
  EXPECT_TRUE(weights.ok()) << weights.status();
  if (plan_out != nullptr) *plan_out = *plan;
  return *std::move(weights);
}

// The stored matrix.
Matrix Stored(const Checkpoint& checkpoint, const std::string& name) {
  const TensorRef tensor = *checkpoint.Tensor(name);
  Matrix matrix;
  for (int64_t i = 0; i < tensor.rows(); ++i) {
    matrix.emplace_back(tensor.columns());
    DecodeRow(tensor.dtype, tensor.row(i), tensor.columns(), matrix.back().data());
  }
  return matrix;
}

std::vector<float> StoredVector(const Checkpoint& checkpoint, const std::string& name) {
  return Stored(checkpoint, name)[0];
}

// Reads a packed linear back: its product with each unit vector is exactly a column.
Matrix Unpack(const kernels::PackedLinear& packed) {
  const int stride = kernels::ActivationStride(packed.inputs);
  const int rows = packed.inputs;
  std::vector<float> units(static_cast<size_t>(rows) * stride + 16);
  for (int k = 0; k < rows; ++k) units[static_cast<size_t>(k) * stride + k] = 1;
  const int out_stride = kernels::ActivationStride(packed.outputs);
  std::vector<float> out(static_cast<size_t>(rows) * out_stride);
  ThreadTeam team(1);
  auto workspace = kernels::ReferenceOps().NewWorkspace({.max_rows = rows,
                                                         .max_positions = 1,
                                                         .max_width = packed.inputs,
                                                         .max_outputs = packed.outputs,
                                                         .query_heads = 1,
                                                         .head_dim = 2},
                                                        1);
  kernels::Stream stream = {.team = &team, .workspace = workspace->get()};
  kernels::PackedLinear weight = packed;
  weight.bias = nullptr;
  const absl::Status status = kernels::ReferenceOps().Logits(
      {.input = {.data = units.data(), .width = packed.inputs, .stride = stride},
       .rows = rows,
       .weight = weight,
       .logits = out.data(),
       .stride = out_stride},
      stream);
  EXPECT_TRUE(status.ok()) << status;
  Matrix matrix(packed.outputs, std::vector<float>(packed.inputs));
  for (int o = 0; o < packed.outputs; ++o) {
    for (int k = 0; k < packed.inputs; ++k) matrix[o][k] = out[size_t(k) * out_stride + o];
  }
  return matrix;
}

// What a Hugging Face file holds at the place of row i of a head of `width` whose neighbours
// rotate together.
int HalfApart(int i, int width) { return i % 2 == 0 ? i / 2 : i / 2 + width / 2; }

TEST(WeightsTest, EachRankHoldsItsSlice) {
  const auto checkpoint = Golden("models/llama_bias");  // 6 / 2 heads of 10, MLP of 64
  for (const int degree : {1, 2, 4}) {
    for (int rank = 0; rank < degree; ++rank) {
      SCOPED_TRACE(testing::Message() << "rank " << rank << " of " << degree);
      ShardPlan plan;
      const auto weights = Load(*checkpoint, degree, rank, &plan);
      const RankShard& shard = plan.ranks[rank];
      const LayerWeights& layer = weights->layer(1);
      const std::string prefix = "model.layers.1.";

      const auto expect_heads = [&](const kernels::PackedLinear& packed, const std::string& name,
                                    const std::vector<int>& heads, bool permuted) {
        const Matrix stored = Stored(*checkpoint, prefix + name + ".weight");
        const auto bias = StoredVector(*checkpoint, prefix + name + ".bias");
        const Matrix found = Unpack(packed);
        ASSERT_EQ(found.size(), heads.size() * 10);
        for (size_t i = 0; i < found.size(); ++i) {
          const int at = static_cast<int>(i % 10);
          const int row = heads[i / 10] * 10 + (permuted ? HalfApart(at, 10) : at);
          EXPECT_EQ(found[i], stored[row]);
          EXPECT_EQ(packed.bias[i], bias[row]);
        }
      };
      std::vector<int> query_heads;
      for (int h = shard.query_head_begin; h < shard.query_head_end; ++h) query_heads.push_back(h);
      expect_heads(layer.q, "self_attn.q_proj", query_heads, true);
      expect_heads(layer.k, "self_attn.k_proj", shard.kv_heads, true);
      expect_heads(layer.v, "self_attn.v_proj", shard.kv_heads, false);

      const auto expect_columns = [&](const kernels::PackedLinear& packed, const std::string& name,
                                      int begin, int end) {
        const Matrix stored = Stored(*checkpoint, prefix + name + ".weight");
        const Matrix found = Unpack(packed);
        ASSERT_EQ(found.size(), stored.size());
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_EQ(found[i],
                    std::vector<float>(stored[i].begin() + begin, stored[i].begin() + end));
        }
      };
      expect_columns(layer.attention_output, "self_attn.o_proj", shard.query_head_begin * 10,
                     shard.query_head_end * 10);
      expect_columns(layer.down, "mlp.down_proj", shard.mlp_begin, shard.mlp_end);
      const auto output_bias = StoredVector(*checkpoint, prefix + "self_attn.o_proj.bias");
      EXPECT_EQ(std::vector<float>(layer.attention_output_bias, layer.attention_output_bias + 60),
                output_bias);

      // Gate and up: 16 of each in turn, the last run filled up.
      const Matrix gate = Stored(*checkpoint, prefix + "mlp.gate_proj.weight");
      const Matrix up = Stored(*checkpoint, prefix + "mlp.up_proj.weight");
      const auto gate_bias = StoredVector(*checkpoint, prefix + "mlp.gate_proj.bias");
      const auto up_bias = StoredVector(*checkpoint, prefix + "mlp.up_proj.bias");
      const int columns = shard.mlp_end - shard.mlp_begin;
      EXPECT_EQ(layer.gate_up.outputs, 2 * columns);
      kernels::PackedLinear tiles = layer.gate_up;
      tiles.outputs = (columns + 15) / 16 * 32;
      const Matrix mixed = Unpack(tiles);
      for (int c = 0; c < columns; ++c) {
        const int at = c / 16 * 32 + c % 16;
        EXPECT_EQ(mixed[at], gate[shard.mlp_begin + c]);
        EXPECT_EQ(mixed[at + 16], up[shard.mlp_begin + c]);
        EXPECT_EQ(layer.gate_up.bias[at], gate_bias[shard.mlp_begin + c]);
        EXPECT_EQ(layer.gate_up.bias[at + 16], up_bias[shard.mlp_begin + c]);
      }

      const Matrix head = Stored(*checkpoint, "lm_head.weight");
      if (weights->lm_head().outputs > 0) {
        EXPECT_EQ(Unpack(weights->lm_head()), Matrix(head.begin() + shard.vocabulary_begin,
                                                     head.begin() + shard.vocabulary_end));
      } else {
        EXPECT_EQ(shard.vocabulary_begin, shard.vocabulary_end);
      }
      EXPECT_EQ(std::vector<float>(weights->final_norm(), weights->final_norm() + 60),
                StoredVector(*checkpoint, "model.norm.weight"));
    }
  }
}

TEST(WeightsTest, GgufRowsStayInOrder) {
  const auto checkpoint = Golden("gguf/llama_f32/model.gguf");
  const auto weights = Load(*checkpoint, 1, 0);
  EXPECT_EQ(Unpack(weights->layer(0).q), Stored(*checkpoint, "blk.0.attn_q.weight"));
}

TEST(WeightsTest, TiedEmbeddingIsTheHeadThoughOneIsStored) {
  const auto checkpoint = Golden("models/llama_old_tensors");
  ASSERT_TRUE(checkpoint->Has("lm_head.weight"));
  const auto weights = Load(*checkpoint, 1, 0);
  EXPECT_EQ(Unpack(weights->lm_head()), Stored(*checkpoint, "model.embed_tokens.weight"));
}

TEST(WeightsTest, RanksShareTheBytes) {
  const auto checkpoint = Golden("gguf/llama_q256/Q8_0.gguf");
  const int64_t whole = Load(*checkpoint, 1, 0)->packed_bytes();
  for (int rank = 0; rank < 2; ++rank) {
    const int64_t half = Load(*checkpoint, 2, rank)->packed_bytes();
    EXPECT_LT(half, whole * 0.55);
    EXPECT_GT(half, whole * 0.45);
  }
}

TEST(WeightsTest, ReportsEachLayer) {
  const auto checkpoint = Golden("models/llama_bias");
  const auto config = ReadModelConfig(*checkpoint);
  const auto plan = MakeShardPlan(*config, 1);
  std::vector<std::pair<int, int>> seen;
  ASSERT_TRUE(Weights::Load(*checkpoint, *config, *plan, 0, [&](int done, int total) {
                seen.emplace_back(done, total);
              }).ok());
  ASSERT_EQ(static_cast<int>(seen.size()), config->layers);
  EXPECT_EQ(seen.front(), std::pair(1, config->layers));
  EXPECT_EQ(seen.back(), std::pair(config->layers, config->layers));
}

std::vector<float> Flat(const Matrix& matrix) {
  std::vector<float> values;
  for (const auto& row : matrix) values.insert(values.end(), row.begin(), row.end());
  return values;
}

TEST(WeightsTest, GateAndUpOfDifferentFormatsBecomeFloats) {
  const auto base = Golden("gguf/llama_q256/Q8_0.gguf");
  OverlayCheckpoint mixed(*base), floats(*base);
  for (const char* layer : {"blk.0.", "blk.1."}) {
    const std::string gate = std::string(layer) + "ffn_gate.weight";
    const std::string up = std::string(layer) + "ffn_up.weight";
    mixed.SetTensor(gate, {256, 256}, Flat(Stored(*base, gate)));
    floats.SetTensor(gate, {256, 256}, Flat(Stored(*base, gate)));
    floats.SetTensor(up, {256, 256}, Flat(Stored(*base, up)));
  }
  EXPECT_EQ(Load(mixed, 1, 0)->layer(0).gate_up.format, DType::kF32);
  const std::vector<int32_t> tokens = {5, 6, 7};
  LogitRows logits[2];
  for (const Checkpoint* checkpoint : {&mixed, &floats}) {
    // 8-bit activations meet the linears that are still quantised.
    const auto group = RankGroup::Create(
        *checkpoint, {.degree = 2, .numerics = {.activations = kernels::ActivationFormat::kQ8}});
    ASSERT_TRUE(group.ok()) << group.status();
    logits[checkpoint == &floats] = TestSequence(**group, 1).Feed(tokens, 3);
  }
  EXPECT_TRUE(SameBits(logits[0], logits[1]));
}

TEST(WeightsTest, NormsMayBeStoredInSixteenBits) {
  const auto base = Golden("models/llama_gqa_9_3");
  OverlayCheckpoint checkpoint(*base);
  std::vector<uint16_t> bf16(54), f16(54);
  for (int i = 0; i < 54; ++i) {
    bf16[i] = FloatToBf16(1 + i / 64.0f);
    f16[i] = FloatToF16(2 + i / 64.0f);
  }
  checkpoint.SetTensor({.name = "model.layers.0.input_layernorm.weight",
                        .dtype = DType::kBF16,
                        .shape = {54},
                        .data = reinterpret_cast<const std::byte*>(bf16.data())});
  checkpoint.SetTensor({.name = "model.norm.weight",
                        .dtype = DType::kF16,
                        .shape = {54},
                        .data = reinterpret_cast<const std::byte*>(f16.data())});
  const auto weights = Load(checkpoint, 1, 0);
  for (int i = 0; i < 54; ++i) {
    EXPECT_EQ(weights->layer(0).attention_norm[i], 1 + i / 64.0f);
    EXPECT_EQ(weights->final_norm()[i], 2 + i / 64.0f);
  }
}

absl::Status LoadError(const Checkpoint& changed, const Checkpoint& base, int rank = 0) {
  // The configuration of the unchanged file: what is wrong shows when the weights are read.
  const auto config = ReadModelConfig(base);
  const auto plan = MakeShardPlan(*config, 2);
  return Weights::Load(changed, *config, *plan, rank).status();
}

TEST(WeightsTest, NamesTensorFoundAndWantedShape) {
  const auto base = Golden("models/llama_bias");
  for (const auto& [name, shape] :
       {std::pair<std::string, std::vector<int64_t>>{"self_attn.q_proj.weight", {60, 60}},
        {"self_attn.k_proj.weight", {20, 60}},
        {"self_attn.v_proj.bias", {20}},
        {"self_attn.o_proj.weight", {60, 60}},
        {"self_attn.o_proj.bias", {60}},
        {"mlp.up_proj.weight", {64, 60}},
        {"mlp.gate_proj.bias", {64}},
        {"mlp.down_proj.weight", {60, 64}},
        {"post_attention_layernorm.weight", {60}}}) {
    SCOPED_TRACE(name);
    const std::string tensor = "model.layers.1." + name;
    OverlayCheckpoint checkpoint(*base);
    // As many values in another shape, and one too few.
    checkpoint.SetTensor(tensor, {1, 2, 3}, std::vector<float>(6));
    absl::Status status = LoadError(checkpoint, *base);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(tensor));
    EXPECT_THAT(std::string(status.message()), HasSubstr("[1, 2, 3]"));
    const std::string wanted = shape.size() == 1 ? absl::StrCat("[", shape[0], "]")
                                                 : absl::StrCat("[", shape[0], ", ", shape[1], "]");
    EXPECT_THAT(std::string(status.message()), HasSubstr("wanted " + wanted));

    checkpoint.RemoveTensor(tensor);
    status = LoadError(checkpoint, *base);
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr(tensor));
  }
}

TEST(WeightsTest, RefusesAPlanThatCutsThroughBlocks) {
  const auto base = Golden("gguf/llama_q256/Q8_0.gguf");
  const ModelConfig config = *ReadModelConfig(*base);
  ShardPlan plan = *MakeShardPlan(config, 2);
  plan.ranks[0].mlp_end = 40;
  const auto weights = Weights::Load(*base, config, plan, 0);
  EXPECT_EQ(weights.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(weights.status().message()), HasSubstr("ffn_down.weight"));
}

TEST(WeightsTest, RefusesARankOutsideThePlan) {
  const auto base = Golden("models/llama_bias");
  for (const int rank : {-1, 2}) {
    EXPECT_EQ(LoadError(*base, *base, rank).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace headway
