#include "runtime/sched/batching.h"

#include <vector>

#include "gmock/gmock.h"

namespace headway {
namespace {

using ::testing::ElementsAre;

constexpr BatchLimits kLimits = {.max_rows = 32, .max_logit_rows = 8, .max_chunk = 16};

std::vector<int> Decide(std::vector<RunnableSequence> sequences, BatchLimits limits = kLimits) {
  std::vector<int> counts(sequences.size(), -1);
  DecideBatch(sequences, limits, counts);
  return counts;
}

TEST(BatchingTest, ServesDecodingSequencesBeforeOlderPrompts) {
  EXPECT_THAT(Decide({{.remaining = 100}, {.remaining = 1, .decoding = true}},
                     {.max_rows = 8, .max_logit_rows = 8, .max_chunk = 16}),
              ElementsAre(7, 1));
}

TEST(BatchingTest, CutsPromptsIntoChunks) {
  EXPECT_THAT(Decide({{.remaining = 17}, {.remaining = 16}, {.remaining = 1}}),
              ElementsAre(16, 16, 0));
}

TEST(BatchingTest, ABatchOfNothingIsEmpty) {
  EXPECT_THAT(Decide({}), ElementsAre());
  EXPECT_THAT(Decide({{.remaining = 0}}), ElementsAre(0));
}

TEST(BatchingTest, LogitRowsLimitThoseThatWantAll) {
  EXPECT_THAT(Decide({{.remaining = 12, .all_logits = true}, {.remaining = 3}}), ElementsAre(8, 0));
  EXPECT_THAT(Decide({{.remaining = 5, .all_logits = true}, {.remaining = 3}}), ElementsAre(5, 3));
}

TEST(BatchingTest, AChunkThatDoesNotEndThePromptWantsNoLogits) {
  BatchLimits limits = {.max_rows = 32, .max_logit_rows = 1, .max_chunk = 4};
  EXPECT_THAT(
      Decide({{.remaining = 9}, {.remaining = 9}, {.remaining = 4}, {.remaining = 4}}, limits),
      ElementsAre(4, 4, 4, 0));
}

TEST(BatchingTest, MoreDecodingSequencesThanRowsWaitInOrder) {
  std::vector<RunnableSequence> many(10, {.remaining = 1, .decoding = true});
  std::vector<int> counts = Decide(many);
  EXPECT_THAT(counts, ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 0, 0));
}

}  // namespace
}  // namespace headway
