// Nodes of every role and degree against the golden greedy continuations and against each other,
// bit for bit; what they refuse, and how they are when they are slow or broken.
#include "runtime/node/node_loop.h"

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/node/node_loop_test_fixture.h"

namespace headway {
namespace {

using ::testing::HasSubstr;

TEST_F(NodeLoopTest, AMixedNodeContinuesAsTheGoldenValuesAtEveryDegree) {
  for (int degree : {1, 2, 3, 9}) {
    std::unique_ptr<LocalGroup> group = Start(NodeRole::kMixed, degree);
    for (size_t i = 0; i < sequences_.size(); ++i) {
      Generated result = Mixed(group->loop(), Prompt(i), Greedy(24));
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.tokens, greedy_[i]) << "degree " << degree << " sequence " << i;
    }
    WaitIdle(group->loop());
  }
}

TEST_F(NodeLoopTest, EveryPairOfDegreesGivesTheBitsOfAMixedNode) {
  std::unique_ptr<LocalGroup> mixed = Start(NodeRole::kMixed, 1);
  const SamplingParams sampling = {
      .temperature = 0.9f, .top_p = 0.95f, .seed = 11, .max_tokens = 20, .ignore_eos = true};
  const std::vector<int32_t>& prompt = sequences_[0];  // 37 tokens: two whole blocks and a part
  const Generated expected = Mixed(mixed->loop(), prompt, sampling);
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  ASSERT_EQ(expected.tokens.size(), 20u);
  for (int p : {1, 2, 3}) {
    LocalGroupOptions options = Options(NodeRole::kPrefill, p);
    options.node.max_chunk = 5 + 8 * p;  // chunks that end within blocks
    std::unique_ptr<LocalGroup> prefill = Start(options);
    for (int d : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << "prefill degree " << p << ", decode degree " << d);
      std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, d);
      const Generated result = Disaggregated(prefill->loop(), decode->loop(), prompt, sampling);
      ASSERT_TRUE(result.status.ok()) << result.status;
      ExpectSameBits(expected, result);
      EXPECT_GT(result.prefill.kv_bytes, 0);
      WaitIdle(decode->loop());
      WaitClosed(*decode);
    }
    WaitIdle(prefill->loop());
    WaitClosed(*prefill);
  }
}

TEST_F(NodeLoopTest, PromptsOfOneTokenOfABlockAndOfOneMoreTransfer) {
  std::unique_ptr<LocalGroup> mixed = Start(NodeRole::kMixed, 1);
  std::unique_ptr<LocalGroup> prefill = Start(NodeRole::kPrefill, 2);
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 1);
  for (int length : {1, 15, 16, 17, 32}) {
    SCOPED_TRACE(length);
    std::vector<int32_t> prompt(sequences_[1].begin(), sequences_[1].begin() + length);
    ExpectSameBits(Mixed(mixed->loop(), prompt, Greedy(3)),
                   Disaggregated(prefill->loop(), decode->loop(), prompt, Greedy(3)));
    WaitIdle(prefill->loop());
    WaitIdle(decode->loop());
  }
}

TEST_F(NodeLoopTest, CompanyInTheBatchChangesNoBit) {
  std::unique_ptr<LocalGroup> group = Start(NodeRole::kMixed, 2);
  const Generated alone = Mixed(group->loop(), Prompt(0), Greedy(24));
  std::vector<std::unique_ptr<RecordingSink>> others;
  for (int i = 0; i < 8; ++i) {
    others.push_back(std::make_unique<RecordingSink>());
    group->loop().Generate({.prompt = {sequences_[1].begin() + i, sequences_[1].begin() + 9 + i},
                            .sampling = Greedy(20 + i),
                            .sink = others.back().get()});
  }
  ExpectSameBits(alone, Mixed(group->loop(), Prompt(0), Greedy(24)));
  for (auto& other : others) EXPECT_TRUE(other->Wait().ok());
  WaitIdle(group->loop());
}

TEST_F(NodeLoopTest, ScoresAreTheLogSoftmaxOfTheGoldenLogits) {
  LocalGroupOptions options = Options(NodeRole::kPrefill, 3);
  options.node.max_chunk = 10;
  std::unique_ptr<LocalGroup> group = Start(options);
  Answer<ScoreResult> answer;
  group->loop().Score({.ids = sequences_[2], .top = 2, .done = answer.Callback()});
  ASSERT_TRUE(answer.Wait().ok()) << answer.Wait().status();
  const ScoreResult& score = *answer.Wait();
  ASSERT_EQ(score.token_logprobs.size(), sequences_[2].size() - 1);
  const GoldenTensor& logits = golden_["logits"];
  const int vocabulary = static_cast<int>(logits.shape[2]);
  // Twice the logits' own tolerance: the token's logit and the normaliser each move by at most
  // that.
  const double tolerance = 2 * golden_["tolerance"].floats[0];
  for (int i = 0; i + 1 < positions_; ++i) {
    const float* row =
        logits.floats.data() + (static_cast<int64_t>(2) * positions_ + i) * vocabulary;
    double sum = 0;
    float best = row[0];
    for (int t = 0; t < vocabulary; ++t) best = std::max(best, row[t]);
    for (int t = 0; t < vocabulary; ++t) sum += std::exp(double{row[t]} - best);
    const double expected = row[sequences_[2][i + 1]] - best - std::log(sum);
    EXPECT_NEAR(score.token_logprobs[i], expected, tolerance) << "position " << i;
    ASSERT_EQ(score.top[i].size(), 2u);
    EXPECT_EQ(row[score.top[i][0].token], best);
  }
  WaitIdle(group->loop());
}

TEST_F(NodeLoopTest, StopTokensEndTheSequenceAndMinTokensHoldsThemOff) {
  std::unique_ptr<LocalGroup> group = Start(NodeRole::kMixed, 1);
  SamplingParams sampling = Greedy(24);
  sampling.stop_token_ids = {greedy_[0][5]};
  const size_t first =
      std::find(greedy_[0].begin(), greedy_[0].end(), greedy_[0][5]) - greedy_[0].begin();
  RecordingSink sink;
  group->loop().Generate({.prompt = Prompt(0), .sampling = sampling, .sink = &sink});
  ASSERT_TRUE(sink.Wait().ok());
  ASSERT_EQ(sink.events().size(), first + 1);
  EXPECT_EQ(sink.events().back().finish, FinishReason::kStop);

  sampling.min_tokens = 8;
  RecordingSink later;
  group->loop().Generate({.prompt = Prompt(0), .sampling = sampling, .sink = &later});
  ASSERT_TRUE(later.Wait().ok());
  ASSERT_GE(later.events().size(), 8u);
  for (int i = 0; i < 8; ++i) EXPECT_NE(later.tokens()[i], greedy_[0][5]);
}

TEST_F(NodeLoopTest, CancellingFreesTheBlocksOfEveryStage) {
  std::unique_ptr<LocalGroup> mixed = Start(NodeRole::kMixed, 2);
  for (int i = 0; i < 20; ++i) {
    RecordingSink sink;
    const uint64_t handle =
        mixed->loop().Generate({.prompt = Prompt(0), .sampling = Greedy(80), .sink = &sink});
    sink.WaitForTokens(i);
    mixed->loop().Cancel(handle);
    const absl::Status status = sink.Wait();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
  }
  WaitIdle(mixed->loop());

  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 2);
  std::unique_ptr<LocalGroup> prefill = Start(NodeRole::kPrefill, 2);
  for (int i = 0; i < 20; ++i) {
    Answer<ReservationGrant> grant;
    decode->loop().Reserve({.prompt_tokens = 37, .max_tokens = 4, .done = grant.Callback()});
    ASSERT_TRUE(grant.Wait().ok());
    Answer<PrefillResult> prefilled;
    const uint64_t handle = prefill->loop().Prefill({.prompt = sequences_[0],
                                                     .sampling = Greedy(4),
                                                     .target = *grant.Wait(),
                                                     .done = prefilled.Callback()});
    prefill->loop().Cancel(handle);
    const absl::Status status = prefilled.Wait().status();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
    decode->loop().Release(grant.Wait()->reservation_id, grant.Wait()->epoch);
  }
  WaitIdle(prefill->loop());
  WaitIdle(decode->loop());
  WaitClosed(*prefill);
  WaitClosed(*decode);
}

TEST_F(NodeLoopTest, RefusesWhatItCannotServeAndGoesOn) {
  std::unique_ptr<LocalGroup> group = Start(NodeRole::kMixed, 1);
  auto status_of = [&](std::vector<int32_t> prompt, int max_tokens) {
    RecordingSink sink;
    group->loop().Generate(
        {.prompt = std::move(prompt), .sampling = Greedy(max_tokens), .sink = &sink});
    return sink.Wait();
  };
  EXPECT_EQ(status_of({}, 4).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status_of({-1}, 4).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status_of({0, 163}, 4).message()), HasSubstr("163"));
  EXPECT_EQ(status_of({1}, 96).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status_of({1}, 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(status_of({1}, 2).ok());
  RecordingSink unset;
  group->loop().Generate(
      {.prompt = {1}, .sampling = {.top_p = 0, .max_tokens = 2}, .sink = &unset});
  EXPECT_EQ(unset.Wait().code(), absl::StatusCode::kInvalidArgument);
  Answer<ReservationGrant> grant;
  group->loop().Reserve({.prompt_tokens = 1, .max_tokens = 1, .done = grant.Callback()});
  EXPECT_EQ(grant.Wait().status().code(), absl::StatusCode::kFailedPrecondition);
  WaitIdle(group->loop());

  LocalGroupOptions small = Options(NodeRole::kMixed, 1);
  small.engine.kv_blocks = 3;
  std::unique_ptr<LocalGroup> tiny = Start(small);
  RecordingSink sink;
  tiny->loop().Generate({.prompt = Prompt(0), .sampling = Greedy(64), .sink = &sink});
  EXPECT_EQ(sink.Wait().code(), absl::StatusCode::kResourceExhausted);
}

// The rule of requests, on nodes that trust no caller: prompt and output fit together, or neither
// begins.
TEST_F(NodeLoopTest, PromptsAroundTheLimitEndThereOrAreRefused) {
  const auto limited = [&](NodeRole role) {
    LocalGroupOptions options = Options(role, 1);
    options.engine.limits.max_positions = 16;
    return Start(options);
  };
  std::unique_ptr<LocalGroup> mixed = limited(NodeRole::kMixed);
  std::unique_ptr<LocalGroup> prefill = limited(NodeRole::kPrefill);
  std::unique_ptr<LocalGroup> decode = limited(NodeRole::kDecode);
  for (const int length : {10, 14, 15, 16, 17}) {
    for (const int max_tokens : {-1, 0, 1, 2, 6, 10, INT32_MAX}) {
      SCOPED_TRACE(testing::Message() << length << " + " << max_tokens);
      const std::vector<int32_t> prompt(sequences_[0].begin(), sequences_[0].begin() + length);
      const bool fits = max_tokens >= 1 && int64_t{length} + max_tokens <= 16;
      RecordingSink sink;
      mixed->loop().Generate({.prompt = prompt, .sampling = Greedy(max_tokens), .sink = &sink});
      EXPECT_EQ(sink.Wait().ok(), fits) << sink.Wait();
      EXPECT_EQ(sink.events().size(), static_cast<size_t>(fits ? max_tokens : 0));
      if (fits) {
        EXPECT_EQ(sink.events().back().finish, FinishReason::kLength);
      }
      if (fits && max_tokens == 1) continue;  // nothing to decode
      const Generated pair =
          Disaggregated(prefill->loop(), decode->loop(), prompt, Greedy(max_tokens));
      if (fits) {
        EXPECT_EQ(pair.tokens, sink.tokens());
      }
      if (!fits) {
        EXPECT_EQ(pair.status.code(), absl::StatusCode::kInvalidArgument) << pair.status;
        // A prefill node refuses the same, even with a place to send it to.
        Answer<ReservationGrant> grant;
        decode->loop().Reserve({.prompt_tokens = 1, .max_tokens = 1, .done = grant.Callback()});
        ASSERT_TRUE(grant.Wait().ok());
        Answer<PrefillResult> prefilled;
        prefill->loop().Prefill({.prompt = prompt,
                                 .sampling = Greedy(max_tokens),
                                 .target = *grant.Wait(),
                                 .done = prefilled.Callback()});
        EXPECT_FALSE(prefilled.Wait().ok());
        decode->loop().Release(grant.Wait()->reservation_id, grant.Wait()->epoch);
      }
    }
  }
  for (auto* group : {&mixed, &prefill, &decode}) WaitIdle((*group)->loop());
}

TEST_F(NodeLoopTest, ScoreTakesNoMoreAlternativesThanARequestMay) {
  std::unique_ptr<LocalGroup> group = Start(NodeRole::kMixed, 1);
  for (int top : {-1, 21}) {
    Answer<ScoreResult> answer;
    group->loop().Score({.ids = {1, 2}, .top = top, .done = answer.Callback()});
    EXPECT_EQ(answer.Wait().status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(NodeLoopTest, BlockTablesFollowTheSequencesThatComeAndGo) {
  // Two places for many sequences of different lengths, whose blocks are those of others before.
  LocalGroupOptions options = Options(NodeRole::kMixed, 2);
  options.node.queue.max_running = 2;
  options.engine.kv_blocks = 8;
  std::unique_ptr<LocalGroup> group = Start(options);
  std::vector<std::unique_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 18; ++i) {
    sinks.push_back(std::make_unique<RecordingSink>());
    group->loop().Generate(
        {.prompt = Prompt(i % 3), .sampling = Greedy(1 + i * 7 % 24), .sink = sinks.back().get()});
  }
  for (int i = 0; i < 18; ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(sinks[i]->Wait().ok());
    EXPECT_EQ(sinks[i]->tokens(), std::vector<int32_t>(greedy_[i % 3].begin(),
                                                       greedy_[i % 3].begin() + 1 + i * 7 % 24));
  }
  WaitIdle(group->loop());
}

TEST_F(NodeLoopTest, RequestsWaitForBlocksInOrder) {
  LocalGroupOptions options = Options(NodeRole::kMixed, 1);
  options.engine.kv_blocks = 3;
  std::unique_ptr<LocalGroup> group = Start(options);
  std::vector<std::unique_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 6; ++i) {
    sinks.push_back(std::make_unique<RecordingSink>());
    group->loop().Generate(
        {.prompt = Prompt(i % 3), .sampling = Greedy(24), .sink = sinks.back().get()});
  }
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(sinks[i]->Wait().ok());
    EXPECT_EQ(sinks[i]->tokens(), greedy_[i % 3]);
  }
  WaitIdle(group->loop());
}

TEST_F(NodeLoopTest, WhatIsUnderWayEndsWhenTheNodeStops) {
  std::unique_ptr<LocalGroup> group = Start(NodeRole::kMixed, 3);
  RecordingSink sink;
  group->loop().Generate({.prompt = Prompt(0), .sampling = Greedy(80), .sink = &sink});
  sink.WaitForTokens(1);
  group->loop().Stop();
  const absl::Status status = sink.Wait();
  EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
  RecordingSink late;
  group->loop().Generate({.prompt = Prompt(0), .sampling = Greedy(1), .sink = &late});
  EXPECT_EQ(late.Wait().code(), absl::StatusCode::kUnavailable);
}

TEST_F(NodeLoopTest, ANodeIsWellWhileItsStepsAreOnlySlow) {
  Gate gate;
  LocalGroupOptions options = Options(NodeRole::kMixed, 2);
  options.node.stuck_seconds = 60;
  options.wrap_communicator = [&](std::unique_ptr<Communicator> real) {
    return std::make_unique<GatedCommunicator>(std::move(real), gate);
  };
  std::unique_ptr<LocalGroup> group = Start(options);
  NodeLoop& loop = group->loop();
  // Nothing waits: a node that has not done anything for long is well.
  clock_.AdvanceSeconds(1000);
  EXPECT_TRUE(loop.health().ok()) << loop.health();
  EXPECT_EQ(loop.load().stalled_ms, 0);

  gate.Shut();
  RecordingSink first, second;
  loop.Generate({.prompt = Prompt(0), .sampling = Greedy(2), .sink = &first});
  gate.WaitForSomebody();
  loop.Generate({.prompt = Prompt(1), .sampling = Greedy(2), .sink = &second});
  clock_.AdvanceSeconds(59);
  EXPECT_TRUE(loop.health().ok()) << loop.health();
  // Answered while the step runs, with what the loop has not seen yet.
  EXPECT_EQ(loop.load().stalled_ms, 59'000);
  EXPECT_EQ(loop.load().running, 1);
  EXPECT_EQ(loop.load().waiting, 1);
  EXPECT_EQ(loop.load().waiting_blocks, 1);
  // One that will be refused counts no more than the node has.
  RecordingSink refused;
  constexpr int kTooMany = std::numeric_limits<int>::max();
  loop.Generate({.prompt = Prompt(2), .sampling = Greedy(kTooMany), .sink = &refused});
  EXPECT_EQ(loop.load().waiting_blocks, 1 + 24);
  EXPECT_EQ(loop.load().free_blocks, 23);
  clock_.AdvanceSeconds(1);
  EXPECT_TRUE(absl::IsUnavailable(loop.health())) << loop.health();
  EXPECT_THAT(std::string(loop.health().message()), HasSubstr("no step has ended for 60 s"));

  // A step that ends after all makes it well again.
  gate.Open();
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_TRUE(second.Wait().ok());
  EXPECT_TRUE(absl::IsInvalidArgument(refused.Wait())) << refused.Wait();
  WaitIdle(loop);
  EXPECT_EQ(loop.load().waiting_blocks, 0);
  EXPECT_TRUE(loop.health().ok()) << loop.health();
}

TEST_F(NodeLoopTest, AnIdleNodeHearsThatItIsBroken) {
  std::unique_ptr<LocalGroup> group = Start(NodeRole::kMixed, 1);
  Answer<int64_t> told;
  group->loop().OnFailure([&](const absl::Status&) { told.Callback()(1); });
  group->loop().Break(absl::UnavailableError("rank-1 was ended by signal 9"));
  EXPECT_TRUE(told.Wait().ok());
  EXPECT_THAT(std::string(group->loop().health().message()),
              HasSubstr("ranks stopped: rank-1 was ended by signal 9"));
  RecordingSink late;
  group->loop().Generate({.prompt = Prompt(0), .sampling = Greedy(1), .sink = &late});
  EXPECT_EQ(late.Wait().code(), absl::StatusCode::kUnavailable);
}

TEST_F(NodeLoopTest, ABrokenNodeSaysSo) {
  std::vector<Communicator*> comms;
  LocalGroupOptions options = Options(NodeRole::kMixed, 2);
  options.wrap_communicator = [&](std::unique_ptr<Communicator> real) {
    comms.push_back(real.get());
    return real;
  };
  std::unique_ptr<LocalGroup> group = Start(options);
  comms[1]->Abort("rank 1 was killed");
  RecordingSink sink;
  group->loop().Generate({.prompt = Prompt(0), .sampling = Greedy(2), .sink = &sink});
  EXPECT_TRUE(absl::IsUnavailable(sink.Wait()));
  EXPECT_TRUE(absl::IsUnavailable(group->loop().health()));
  EXPECT_THAT(std::string(group->loop().health().message()), HasSubstr("rank 1 was killed"));
}

}  // namespace
}  // namespace headway
