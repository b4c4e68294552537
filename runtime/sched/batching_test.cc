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
  EXPECT_THAT(Decide({{.remaining = 17}, {.remaining = 16}}), ElementsAre(16, 16));
  EXPECT_THAT(Decide({{.remaining = 40}}), ElementsAre(16));
}

TEST(BatchingTest, AShortPromptDoesNotWaitForALongOne) {
  const BatchLimits limits = {.max_rows = 32, .max_logit_rows = 8, .max_chunk = 32};
  EXPECT_THAT(Decide({{.remaining = 4000}, {.remaining = 3}}, limits), ElementsAre(29, 3));
  EXPECT_THAT(Decide({{.remaining = 3}, {.remaining = 4000}}, limits), ElementsAre(3, 29));
  // Of equal ones the older ends first.
  EXPECT_THAT(Decide({{.remaining = 30}, {.remaining = 30}}, limits), ElementsAre(30, 2));
}

TEST(BatchingTest, TheOldestPromptGetsOnWhateverComes) {
  const BatchLimits limits = {.max_rows = 9, .max_logit_rows = 8, .max_chunk = 32};
  EXPECT_THAT(
      Decide({{.remaining = 4000}, {.remaining = 3}, {.remaining = 2}, {.remaining = 1}}, limits),
      ElementsAre(5, 1, 2, 1));
}

TEST(BatchingTest, ABatchOfNothingIsEmpty) {
  EXPECT_THAT(Decide({}), ElementsAre());
  EXPECT_THAT(Decide({{.remaining = 0}}), ElementsAre(0));
}

TEST(BatchingTest, LogitRowsLimitThoseThatWantAll) {
  EXPECT_THAT(Decide({{.remaining = 12, .all_logits = true}}), ElementsAre(8));
  // One is kept for a prompt that may end, and no more than that.
  EXPECT_THAT(Decide({{.remaining = 12, .all_logits = true}, {.remaining = 3}}), ElementsAre(7, 3));
  EXPECT_THAT(Decide({{.remaining = 5, .all_logits = true}, {.remaining = 3}}), ElementsAre(5, 3));
}

TEST(BatchingTest, WhoWantsAllLogitsGetsOnBesideManyPrompts) {
  std::vector<RunnableSequence> many(9, {.remaining = 2});
  many[0] = {.remaining = 100, .all_logits = true};
  EXPECT_THAT(Decide(many), ElementsAre(1, 2, 2, 2, 2, 2, 2, 2, 1));
}

TEST(BatchingTest, APromptThatFindsNoLogitRowStopsBeforeItsEnd) {
  const BatchLimits limits = {.max_rows = 32, .max_logit_rows = 1, .max_chunk = 4};
  EXPECT_THAT(
      Decide({{.remaining = 9}, {.remaining = 9}, {.remaining = 4}, {.remaining = 4}}, limits),
      ElementsAre(4, 4, 4, 3));
  EXPECT_THAT(Decide({{.remaining = 1}, {.remaining = 1}}, limits), ElementsAre(1, 0));
}

TEST(BatchingTest, MoreDecodingSequencesThanRowsWaitInOrder) {
  std::vector<RunnableSequence> many(10, {.remaining = 1, .decoding = true});
  std::vector<int> counts = Decide(many);
  EXPECT_THAT(counts, ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 0, 0));
}

}  // namespace
}  // namespace headway
