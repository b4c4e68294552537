// Models so small, or with so many zeros, that what they must give can be worked out by hand.

#include <functional>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/hash.h"
#include "runtime/model/families/family.h"
#include "runtime/model/overlay_checkpoint.h"
#include "runtime/model/rank_group.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = Checkpoint::Kind;
using Logits = BatchSpan::Logits;
using Names = TensorNames;  // a checkpoint has a function of that name

struct Sizes {
  int hidden, query_heads, kv_heads, head_dim;
  int vocabulary = 96;
  int layers = 2;
  int intermediate = 16;
};

// What row `row` of a tensor holds, which is named as in a Hugging Face file.
using Fill = std::function<std::vector<float>(const std::string& name, int row, int columns)>;

Fill Constant(float value) {
  return
      [value](const std::string&, int, int columns) { return std::vector<float>(columns, value); };
}

// Values between -1 and 1 that only their place decides.
std::vector<float> Scattered(const std::string& name, int row, int columns) {
  std::vector<float> values(columns);
  for (int i = 0; i < columns; ++i) {
    const uint64_t bits = HashCombine(Hash64(std::as_bytes(std::span(name))), row * 1000 + i);
    values[i] = static_cast<float>(bits % 2001) / 1000 - 1;
  }
  return values;
}

// A llama without biases, of one kind of checkpoint, with all its keys and tensors replaced.
class SmallModel : public OverlayCheckpoint {
 public:
  // `row_in_head`: which row of a head of Q and K the file holds at each place; empty: in order.
  static std::unique_ptr<SmallModel> Create(Kind kind, const Sizes& sizes, const Fill& fill,
                                            const std::vector<int>& row_in_head = {}) {
    auto base = Checkpoint::Open(
        GoldenPath(kind == Kind::kGguf ? "gguf/llama_f32/model.gguf" : "models/llama_gqa_9_3"));
    EXPECT_TRUE(base.ok()) << base.status();
    return std::unique_ptr<SmallModel>(
        new SmallModel(*std::move(base), kind, sizes, fill, row_in_head));
  }

  const FamilyForm& form() const { return form_; }

 private:
  SmallModel(std::unique_ptr<Checkpoint> base, Kind kind, const Sizes& s, const Fill& fill,
             const std::vector<int>& row_in_head)
      : OverlayCheckpoint(*base),
        base_(std::move(base)),
        form_((*FindFamily("llama"))->form(kind)),
        hugging_face_((*FindFamily("llama"))->form(Kind::kHuggingFace).tensors) {
    for (const std::string& name : base_->TensorNames()) RemoveTensor(name);
    const ConfigKeys& keys = form_.keys;
    for (const auto& [key, value] : {std::pair(keys.layers, s.layers),
                                     {keys.hidden, s.hidden},
                                     {keys.intermediate, s.intermediate},
                                     {keys.query_heads, s.query_heads},
                                     {keys.kv_heads, s.kv_heads},
                                     {keys.head_dim, s.head_dim},
                                     {keys.vocabulary, s.vocabulary}}) {
      Set(std::string(key), int64_t{value});
    }
    Set(std::string(keys.rms_epsilon), 1e-5);
    if (kind == Kind::kGguf) {
      Set(std::string(keys.value_head_dim), int64_t{s.head_dim});
      Set("llama.rope.dimension_count", int64_t{s.head_dim});
    }

    const auto set = [&](const std::string& name, const std::string& source, int rows, int columns,
                         bool by_head = false) {
      std::vector<float> values;
      for (int row = 0; row < rows; ++row) {
        const bool moved = by_head && !row_in_head.empty();
        const int from =
            moved ? row / s.head_dim * s.head_dim + row_in_head[row % s.head_dim] : row;
        for (const float value : fill(source, from, columns)) values.push_back(value);
      }
      SetTensor(name,
                rows == 1 ? std::vector<int64_t>{columns} : std::vector<int64_t>{rows, columns},
                std::move(values));
    };
    const auto whole = [&](std::string_view Names::*member, int rows, int columns) {
      set(std::string(form_.tensors.*member) + ".weight",
          std::string(hugging_face_.*member) + ".weight", rows, columns);
    };
    whole(&Names::embedding, s.vocabulary, s.hidden);
    whole(&Names::final_norm, 1, s.hidden);
    whole(&Names::lm_head, s.vocabulary, s.hidden);
    const int q_rows = s.query_heads * s.head_dim, kv_rows = s.kv_heads * s.head_dim;
    for (int layer = 0; layer < s.layers; ++layer) {
      const auto part = [&](std::string_view Names::*member, int rows, int columns,
                            bool by_head = false) {
        set(form_.tensors.Layer(layer, form_.tensors.*member, ".weight"),
            hugging_face_.Layer(layer, hugging_face_.*member, ".weight"), rows, columns, by_head);
      };
      part(&Names::attention_norm, 1, s.hidden);
      part(&Names::q, q_rows, s.hidden, true);
      part(&Names::k, kv_rows, s.hidden, true);
      part(&Names::v, kv_rows, s.hidden);
      part(&Names::attention_output, s.hidden, q_rows);
      part(&Names::mlp_norm, 1, s.hidden);
      part(&Names::gate, s.intermediate, s.hidden);
      part(&Names::up, s.intermediate, s.hidden);
      part(&Names::down, s.hidden, s.intermediate);
    }
  }

  std::unique_ptr<Checkpoint> base_;
  const FamilyForm& form_;
  const Names& hugging_face_;
};

std::unique_ptr<RankGroup> Start(const Checkpoint& checkpoint, int degree) {
  auto group = RankGroup::Create(checkpoint, {.degree = degree});
  EXPECT_TRUE(group.ok()) << group.status();
  return *std::move(group);
}

std::vector<int32_t> SomeTokens(int count, int vocabulary) {
  std::vector<int32_t> tokens(count);
  for (int i = 0; i < count; ++i) tokens[i] = (i * 29 + 5) % vocabulary;
  return tokens;
}

// Rows (1, 0), (0, 1), (1, 1) of the embedding in turn; a final norm that makes (2, 3) of (1, 1).
std::vector<float> TiedExample(const std::string& name, int row, int columns) {
  if (name == "model.embed_tokens.weight") {
    return std::vector<std::vector<float>>{{1, 0}, {0, 1}, {1, 1}}[row % 3];
  }
  if (name == "model.norm.weight") return {2, 3};
  return std::vector<float>(columns, 0);
}

TEST(TiedEmbeddingByHandTest, TheEmbeddingIsTheOutputMatrix) {
  for (const Kind kind : {Kind::kHuggingFace, Kind::kGguf}) {
    const auto model = SmallModel::Create(
        kind, {.hidden = 2, .query_heads = 2, .kv_heads = 2, .head_dim = 2, .layers = 1},
        TiedExample);
    model->RemoveTensor(std::string(model->form().tensors.lm_head) + ".weight");
    if (kind == Kind::kHuggingFace) model->Set("tie_word_embeddings", true);
    for (const int degree : {1, 2}) {  // with two ranks each has rows of the vocabulary
      SCOPED_TRACE(testing::Message() << "degree " << degree << " of kind " << int(kind));
      const auto group = Start(*model, degree);
      ASSERT_GT(group->plan().ranks.back().vocabulary_end,
                group->plan().ranks.back().vocabulary_begin);
      const LogitRows logits = TestSequence(*group, 1).Feed(std::vector<int32_t>{2}, 1);
      ASSERT_EQ(logits[0].size(), 96u);
      for (int i = 0; i < 96; ++i) {
        // The norm's epsilon takes 5e-6 off.
        EXPECT_NEAR(logits[0][i], (std::vector<float>{2, 3, 5}[i % 3]), 1e-4) << i;
      }
      EXPECT_EQ(ArgMax(logits[0]), 2);
    }
  }
}

// What comes out of each layer, of one row.
class LastResidual : public LayerObserver {
 public:
  void OnLayer(int, const float* residual, int, int rows) override {
    EXPECT_EQ(rows, 1);
    layers.emplace_back(residual, residual + 16);
  }
  LogitRows layers;
};

TEST(OutputBiasByHandTest, ItIsAddedOnceAtEveryDegree) {
  const auto model = SmallModel::Create(
      Kind::kHuggingFace, {.hidden = 16, .query_heads = 8, .kv_heads = 2, .head_dim = 8},
      Constant(0));
  model->Set("attention_bias", true);
  model->Set("mlp_bias", true);
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    for (const auto& [name, size, value] : {std::tuple("self_attn.q_proj.bias", 64, 0.0f),
                                            {"self_attn.k_proj.bias", 16, 0.0f},
                                            {"self_attn.v_proj.bias", 16, 0.0f},
                                            {"self_attn.o_proj.bias", 16, 100.0f},
                                            {"mlp.gate_proj.bias", 16, 0.0f},
                                            {"mlp.up_proj.bias", 16, 0.0f},
                                            {"mlp.down_proj.bias", 16, 7.0f}}) {
      model->SetTensor(std::string(layer) + name, {size}, std::vector<float>(size, value));
    }
  }
  for (const int degree : {1, 2, 4, 8}) {
    SCOPED_TRACE(degree);
    const auto group = Start(*model, degree);
    std::vector<LastResidual> residuals(degree);
    std::vector<LayerObserver*> observers;
    for (LastResidual& residual : residuals) observers.push_back(&residual);
    const std::vector<int32_t> token = {1};
    const TestSequence sequence(*group, 1);
    const BatchSpan span = sequence.Next(token, Logits::kNone);
    ASSERT_TRUE(group->Run({&span, 1}, observers).ok());
    for (const LastResidual& residual : residuals) {
      ASSERT_EQ(residual.layers.size(), 2u);
      EXPECT_THAT(residual.layers[0], Each(107));
      EXPECT_THAT(residual.layers[1], Each(214));
    }
  }
}

// Where the heads together are wider than the hidden size.
constexpr Sizes kWideHeads = {.hidden = 8, .query_heads = 2, .kv_heads = 1, .head_dim = 8};

TEST(HeadSizeByHandTest, TheStatedOneCountsNotHiddenOverHeads) {
  for (const Kind kind : {Kind::kHuggingFace, Kind::kGguf}) {
    const auto model = SmallModel::Create(kind, kWideHeads, Scattered);
    const auto config = ReadModelConfig(*model);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->head_dim, 8);
    const std::vector<int32_t> tokens = SomeTokens(20, 96);
    const LogitRows one = TestSequence(*Start(*model, 1), 2).Feed(tokens, 7);
    EXPECT_TRUE(SameBits(TestSequence(*Start(*model, 2), 2).Feed(tokens, 20), one));

    // Without it, heads of 4 are meant, which these matrices do not have.
    model->Remove(std::string(model->form().keys.head_dim));
    model->Remove("llama.attention.value_length");
    model->Remove("llama.rope.dimension_count");
    ASSERT_EQ(ReadModelConfig(*model)->head_dim, 4);
    const absl::Status status = RankGroup::Create(*model, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(model->form().tensors.Layer(0, model->form().tensors.q, ".weight")),
                      HasSubstr("[16, 8]"), HasSubstr("wanted [8, 8]")));
  }
}

// GGUF stores the rows of Q and K so that those which rotate together are neighbours.
TEST(RopeRowsByHandTest, BothKindsOfCheckpointAreOneModel) {
  for (const auto& [head_dim, order] :
       {std::pair(4, std::vector<int>{0, 2, 1, 3}), {8, {0, 4, 1, 5, 2, 6, 3, 7}}}) {
    const Sizes sizes = {.hidden = 16, .query_heads = 8, .kv_heads = 2, .head_dim = head_dim};
    const std::vector<int32_t> tokens = SomeTokens(20, 96);
    const auto logits = [&](Kind kind, const std::vector<int>& row_in_head) {
      const auto model = SmallModel::Create(kind, sizes, Scattered, row_in_head);
      return TestSequence(*Start(*model, 1), 2).Feed(tokens, 20);
    };
    const LogitRows expected = logits(Kind::kHuggingFace, {});
    EXPECT_TRUE(SameBits(logits(Kind::kGguf, order), expected)) << head_dim;
    // The first token sees itself alone, whatever its query and key are: it would hide the fault.
    const LogitRows in_order = logits(Kind::kGguf, {});
    EXPECT_EQ(in_order[0], expected[0]);
    EXPECT_NE(in_order[1], expected[1]);
    EXPECT_NE(in_order[17], expected[17]);
  }
}

TEST(KvHeadsByHandTest, MoreRanksThanKvHeadsHoldCopies) {
  const auto model =
      SmallModel::Create(Kind::kHuggingFace,
                         {.hidden = 16, .query_heads = 8, .kv_heads = 2, .head_dim = 8}, Scattered);
  const std::vector<int32_t> tokens = SomeTokens(20, 96);
  const LogitRows one = TestSequence(*Start(*model, 1), 2).Feed(tokens, 20);
  for (const int degree : {2, 4, 8}) {
    const auto group = Start(*model, degree);
    for (int rank = 0; rank < degree; ++rank) {
      EXPECT_THAT(group->plan().ranks[rank].kv_heads, ElementsAre(rank * 2 / degree));
      for (const kernels::KvLayerView& layer : group->kv(rank).layers) {
        EXPECT_EQ(layer.kv_heads, 1);  // whole, not a half
      }
    }
    EXPECT_TRUE(SameBits(TestSequence(*group, 2).Feed(tokens, 9), one)) << degree;
  }
}

}  // namespace
}  // namespace headway
