#include "runtime/experiment/verify/row.h"

#include "gtest/gtest.h"

namespace headway {
namespace {

RowResult TwoPromptTokensAndTwoOutputs() {
  return {.tokens = {7, 8},
          .positions = {{.position = 0, .layers = {1, 2}, .logits = 3},
                        {.position = 1, .layers = {4, 5}, .logits = 6},
                        {.position = 2, .layers = {7, 8}, .logits = 9}}};
}

std::optional<Difference> After(void (*change)(RowResult&)) {
  RowResult changed = TwoPromptTokensAndTwoOutputs();
  change(changed);
  return FirstDifference(TwoPromptTokensAndTwoOutputs(), changed, 2);
}

TEST(FirstDifferenceTest, EqualRowsHaveNone) {
  EXPECT_EQ(After([](RowResult&) {}), std::nullopt);
}

TEST(FirstDifferenceTest, NamesTheEarliestPositionThenLayer) {
  EXPECT_EQ(After([](RowResult& r) {
              r.positions[1].layers[1] = 0;
              r.positions[2].layers[0] = 0;
            }),
            (Difference{1, 1}));
  EXPECT_EQ(After([](RowResult& r) { r.positions[1].logits = 0; }),
            (Difference{1, Difference::kLogits}));
  EXPECT_EQ(After([](RowResult& r) { r.tokens[0] = 0; }), (Difference{2, Difference::kToken}));
  EXPECT_EQ(After([](RowResult& r) { r.tokens[1] = 0; }), (Difference{3, Difference::kToken}));
}

TEST(FirstDifferenceTest, WhatIsMissingDiffers) {
  EXPECT_EQ(After([](RowResult& r) { r.positions.pop_back(); }),
            (Difference{2, Difference::kMissing}));
  EXPECT_EQ(After([](RowResult& r) { r.tokens.pop_back(); }),
            (Difference{3, Difference::kMissing}));
  EXPECT_EQ(After([](RowResult& r) { r.positions[0].layers.pop_back(); }),
            (Difference{0, Difference::kMissing}));
  EXPECT_EQ(After([](RowResult& r) { r.positions[1].position = 0; }),
            (Difference{1, Difference::kMissing}));
}

}  // namespace
}  // namespace headway
