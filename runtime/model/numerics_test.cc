#include "runtime/model/numerics.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

using kernels::ActivationFormat;

std::unique_ptr<Checkpoint> Golden(const std::string& relative) {
  auto checkpoint = Checkpoint::Open(GoldenPath(relative));
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  return *std::move(checkpoint);
}

TEST(NumericsTest, QuantisedLinearsGetEightBitActivations) {
  const auto quantised = Golden("gguf/llama_q256/Q8_0.gguf");
  EXPECT_EQ(DefaultActivations(*quantised, *ReadModelConfig(*quantised)), ActivationFormat::kQ8);
  const auto half = Golden("gguf/llama_tied_f16/model.gguf");
  EXPECT_EQ(DefaultActivations(*half, *ReadModelConfig(*half)), ActivationFormat::kF32);
}

TEST(NumericsTest, IdNamesEachChoice) {
  const auto checkpoint = Golden("models/llama_gqa_9_3");
  const std::string id = NumericsId(*checkpoint, {.kv_dtype = DType::kF16});
  EXPECT_THAT(id, testing::MatchesRegex("[0-9a-f]{16}-f32-f16-cpu-[0-9]+"));
  EXPECT_EQ(id, NumericsId(*Golden("models/llama_gqa_9_3"), {.kv_dtype = DType::kF16}));
  const std::set<std::string> ids = {
      id, NumericsId(*checkpoint, {.kv_dtype = DType::kBF16}),
      NumericsId(*checkpoint, {.kv_dtype = DType::kF16, .activations = ActivationFormat::kQ8}),
      NumericsId(*Golden("models/llama_bias"), {.kv_dtype = DType::kF16})};
  EXPECT_EQ(ids.size(), 4u);
}

}  // namespace
}  // namespace headway
