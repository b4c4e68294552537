// Whole nodes in this process, on a tiny checkpoint with 9 query and 3 KV heads: mixed, and prefill
// -> decode pairs of every degree, against the golden greedy continuations and against each other
// bit for bit.
#include "runtime/node/node_loop.h"

#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/clock.h"
#include "runtime/cluster/error_details.h"
#include "runtime/comm/communicator.h"
#include "runtime/node/local_group.h"
#include "runtime/node/recording_sink.h"
#include "runtime/transfer/local_transport.h"
#include "tests/golden_tensors.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

using ::testing::HasSubstr;

class NodeLoopTest : public ::testing::Test {
 protected:
  NodeLoopTest() {
    absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint =
        Checkpoint::Open(GoldenPath("models/llama_gqa_9_3"));
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    checkpoint_ = *std::move(checkpoint);
    golden_ = ReadGolden(GoldenPath("models/llama_gqa_9_3/expected.safetensors"));
    const GoldenTensor& ids = golden_["ids"];
    positions_ = static_cast<int>(ids.shape[1]);
    const GoldenTensor& greedy = golden_["greedy"];
    for (int64_t i = 0; i < ids.shape[0]; ++i) {
      sequences_.emplace_back(ids.ints.begin() + i * positions_,
                              ids.ints.begin() + (i + 1) * positions_);
      greedy_.emplace_back(greedy.ints.begin() + i * greedy.shape[1],
                           greedy.ints.begin() + (i + 1) * greedy.shape[1]);
    }
  }

  std::vector<int32_t> Prompt(int i) const {
    return {sequences_[i].begin(), sequences_[i].begin() + 8};
  }

  LocalGroupOptions Options(NodeRole role, int degree) {
    LocalGroupOptions options;
    options.node.role = role;
    options.degree = degree;
    options.engine.numerics.kv_dtype = DType::kF32;
    options.engine.kv_blocks = 24;
    options.engine.limits.max_positions = 96;
    options.engine.limits.max_rows = 64;
    options.engine.limits.max_logit_rows = 64;
    if (role != NodeRole::kMixed) options.new_transport = [this](int) { return hub_.Create(); };
    return options;
  }
  std::unique_ptr<LocalGroup> Start(const LocalGroupOptions& options) {
    absl::StatusOr<std::unique_ptr<LocalGroup>> group =
        LocalGroup::Create(*checkpoint_, options, clock_);
    EXPECT_TRUE(group.ok()) << group.status();
    return *std::move(group);
  }
  std::unique_ptr<LocalGroup> Start(NodeRole role, int degree) {
    return Start(Options(role, degree));
  }

  static SamplingParams Greedy(int max_tokens) {
    return {.max_tokens = max_tokens, .ignore_eos = true, .logprobs = 0};
  }

  // What a node says after it has done all that it was asked before.
  static NodeLoad LoadOf(NodeLoop& loop) {
    Answer<int64_t> done;
    loop.Renew({.done = done.Callback()});
    EXPECT_TRUE(absl::IsNotFound(done.Wait().status()));
    return loop.load();
  }
  // Looks until all blocks are free, and asks for nothing, so that the loop comes to it by itself.
  // A block that leaks makes this test hang, and time out.
  void WaitIdle(NodeLoop& loop) {
    for (;; std::this_thread::yield()) {
      const NodeLoad load = loop.load();
      if (load.free_blocks == load.total_blocks &&
          load.running + load.waiting + load.reservations == 0)
        return;
    }
  }

  // Prompt -> reservation -> prefill -> decode, as a router does it. All tokens, and the trace of
  // every position.
  struct Generated {
    absl::Status status;
    std::vector<int32_t> tokens;
    std::vector<PositionTrace> trace;
    PrefillResult prefill;
  };
  Generated Disaggregated(NodeLoop& prefill, NodeLoop& decode, std::vector<int32_t> prompt,
                          const SamplingParams& sampling) {
    Generated result;
    Answer<ReservationGrant> grant;
    decode.Reserve({.prompt_tokens = static_cast<int>(prompt.size()),
                    .max_tokens = sampling.max_tokens,
                    .done = grant.Callback()});
    if (!(result.status = grant.Wait().status()).ok()) return result;
    Answer<PrefillResult> prefilled;
    prefill.Prefill({.prompt = prompt,
                     .sampling = sampling,
                     .trace = true,
                     .target = *grant.Wait(),
                     .done = prefilled.Callback()});
    if (!(result.status = prefilled.Wait().status()).ok()) return result;
    result.prefill = *prefilled.Wait();
    RecordingSink sink;
    decode.Decode({.prompt = prompt,
                   .first_token = result.prefill.first.token,
                   .sampling = sampling,
                   .trace = true,
                   .manifest = result.prefill.manifest,
                   .sink = &sink});
    result.status = sink.Wait();
    result.tokens = {result.prefill.first.token};
    result.trace = result.prefill.first.trace;
    for (const TokenEvent& event : sink.events()) {
      result.tokens.push_back(event.token);
      result.trace.insert(result.trace.end(), event.trace.begin(), event.trace.end());
    }
    return result;
  }

  Generated Mixed(NodeLoop& loop, std::vector<int32_t> prompt, const SamplingParams& sampling) {
    RecordingSink sink;
    loop.Generate(
        {.prompt = std::move(prompt), .sampling = sampling, .trace = true, .sink = &sink});
    Generated result;
    result.status = sink.Wait();
    result.tokens = sink.tokens();
    for (const TokenEvent& event : sink.events()) {
      result.trace.insert(result.trace.end(), event.trace.begin(), event.trace.end());
    }
    return result;
  }

  static void ExpectSameBits(const Generated& a, const Generated& b) {
    EXPECT_EQ(a.tokens, b.tokens);
    ASSERT_EQ(a.trace.size(), b.trace.size());
    for (size_t i = 0; i < a.trace.size(); ++i) {
      EXPECT_EQ(a.trace[i].position, static_cast<int>(i));
      EXPECT_EQ(b.trace[i].position, static_cast<int>(i));
      EXPECT_EQ(a.trace[i].layers, b.trace[i].layers) << "position " << i;
      EXPECT_EQ(a.trace[i].logits, b.trace[i].logits) << "position " << i;
      EXPECT_NE(a.trace[i].logits, 0u);
    }
  }

  FakeClock clock_;
  LocalTransportHub hub_;
  std::unique_ptr<Checkpoint> checkpoint_;
  GoldenTensors golden_;
  int positions_ = 0;
  std::vector<std::vector<int32_t>> sequences_;
  std::vector<std::vector<int32_t>> greedy_;
};

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
    }
    WaitIdle(prefill->loop());
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
}

TEST_F(NodeLoopTest, AReservationMayBeNamedByWhoAsks) {
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 1);
  Answer<ReservationGrant> grant, again;
  decode->loop().Reserve(
      {.prompt_tokens = 37, .max_tokens = 4, .reservation_id = 4711, .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok()) << grant.Wait().status();
  EXPECT_EQ(grant.Wait()->reservation_id, 4711u);
  decode->loop().Reserve(
      {.prompt_tokens = 37, .max_tokens = 4, .reservation_id = 4711, .done = again.Callback()});
  EXPECT_EQ(again.Wait().status().code(), absl::StatusCode::kAlreadyExists);
  decode->loop().Release(4711, grant.Wait()->epoch + 1);
  EXPECT_EQ(LoadOf(decode->loop()).reservations, 1);
  // Who got no answer knows no epoch.
  decode->loop().Release(4711, 0);
  WaitIdle(decode->loop());
}

TEST_F(NodeLoopTest, AReservationEndsWithItsLease) {
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 2);
  Answer<ReservationGrant> grant;
  decode->loop().Reserve(
      {.prompt_tokens = 37, .max_tokens = 4, .lease_ms = 1000, .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok());
  EXPECT_EQ(grant.Wait()->lease_ms, 1000);
  EXPECT_EQ(LoadOf(decode->loop()).reservations, 1);
  clock_.AdvanceSeconds(1.1);
  WaitIdle(decode->loop());
  RecordingSink sink;
  decode->loop().Decode(
      {.prompt = sequences_[0],
       .sampling = Greedy(4),
       .manifest = {.reservation_id = grant.Wait()->reservation_id, .epoch = grant.Wait()->epoch},
       .sink = &sink});
  EXPECT_EQ(sink.Wait().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CauseOf(sink.Wait()), FailureCause::kReservationLost);
}

TEST_F(NodeLoopTest, DecodingStartsOnlyOnTheSealedManifest) {
  std::unique_ptr<LocalGroup> prefill = Start(NodeRole::kPrefill, 1);
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 2);
  auto decode_with = [&](std::function<void(Manifest&)> change,
                         std::optional<int32_t> first_token = {}) {
    Answer<ReservationGrant> grant;
    decode->loop().Reserve(
        {.prompt_tokens = 37, .max_tokens = 4, .lease_ms = 1000, .done = grant.Callback()});
    Answer<PrefillResult> prefilled;
    prefill->loop().Prefill({.prompt = sequences_[0],
                             .sampling = Greedy(4),
                             .target = *grant.Wait(),
                             .done = prefilled.Callback()});
    EXPECT_TRUE(prefilled.Wait().ok()) << prefilled.Wait().status();
    Manifest manifest = prefilled.Wait()->manifest;
    change(manifest);
    RecordingSink sink;
    decode->loop().Decode({.prompt = sequences_[0],
                           .first_token = first_token.value_or(prefilled.Wait()->first.token),
                           .sampling = Greedy(4),
                           .manifest = manifest,
                           .sink = &sink});
    absl::Status status = sink.Wait();
    decode->loop().Release(manifest.reservation_id, grant.Wait()->epoch);
    return status;
  };
  EXPECT_TRUE(decode_with([](Manifest&) {}).ok());
  EXPECT_EQ(decode_with([](Manifest& m) { m.ranks[1].digest ^= 1; }).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(decode_with([](Manifest& m) { --m.ranks[0].runs; }).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decode_with([](Manifest& m) { ++m.ranks[1].runs; }).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decode_with([](Manifest& m) { m.ranks[1] = {}; }).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decode_with([](Manifest& m) { ++m.epoch; }).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(decode_with([](Manifest& m) { m.ranks.pop_back(); }).code(),
            absl::StatusCode::kInvalidArgument);
  for (const int32_t token : {-1, 163}) {
    const absl::Status status = decode_with([](Manifest&) {}, token);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("first token is ", token, "; the vocabulary has 163")));
  }
  EXPECT_TRUE(decode_with([](Manifest&) {}, 162).ok());
  WaitIdle(decode->loop());
  WaitIdle(prefill->loop());
  EXPECT_EQ(decode->loop().load().kv_messages_refused, 0);
}

TEST_F(NodeLoopTest, ATransferIsAFunctionOfThePrompt) {
  std::unique_ptr<LocalGroup> prefill = Start(NodeRole::kPrefill, 1);
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 2);
  // The rest of the last block is nobody's: not what earlier sequences left there.
  const std::vector<int32_t> prompt(sequences_[0].begin(), sequences_[0].begin() + 20);
  std::optional<Manifest> first;
  for (int i = 0; i < 3; ++i) {
    const Generated generated = Disaggregated(prefill->loop(), decode->loop(), prompt, Greedy(3));
    ASSERT_TRUE(generated.status.ok()) << generated.status;
    if (!first) first = generated.prefill.manifest;
    EXPECT_EQ(generated.prefill.manifest.ranks, first->ranks);
    const Generated other =
        Disaggregated(prefill->loop(), decode->loop(), sequences_[1 + i % 2], Greedy(3));
    ASSERT_TRUE(other.status.ok()) << other.status;
    WaitIdle(prefill->loop());
  }
}

TEST_F(NodeLoopTest, DecodingStartsByItselfWhenTheKvComesAfterTheCall) {
  std::unique_ptr<LocalGroup> prefill = Start(NodeRole::kPrefill, 2);
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 2);
  const Generated before = Disaggregated(prefill->loop(), decode->loop(), sequences_[0], Greedy(5));
  ASSERT_TRUE(before.status.ok()) << before.status;
  Answer<ReservationGrant> grant;
  decode->loop().Reserve({.prompt_tokens = static_cast<int>(sequences_[0].size()),
                          .max_tokens = 5,
                          .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok()) << grant.Wait().status();
  RecordingSink sink;
  decode->loop().Decode({.prompt = sequences_[0],
                         .first_token = before.tokens[0],
                         .sampling = Greedy(5),
                         .manifest = {.reservation_id = grant.Wait()->reservation_id,
                                      .epoch = grant.Wait()->epoch,
                                      .ranks = before.prefill.manifest.ranks},
                         .sink = &sink});
  Answer<PrefillResult> prefilled;
  prefill->loop().Prefill({.prompt = sequences_[0],
                           .sampling = Greedy(5),
                           .target = *grant.Wait(),
                           .done = prefilled.Callback()});
  // Nothing else is asked of the decode node.
  EXPECT_TRUE(sink.Wait().ok()) << sink.Wait();
  EXPECT_THAT(sink.tokens(),
              testing::ElementsAreArray(before.tokens.begin() + 1, before.tokens.end()));
  EXPECT_TRUE(prefilled.Wait().ok());
  WaitIdle(prefill->loop());
  WaitIdle(decode->loop());
}

TEST_F(NodeLoopTest, ANameWaitsOnce) {
  LocalGroupOptions options = Options(NodeRole::kDecode, 1);
  options.engine.kv_blocks = 4;
  std::unique_ptr<LocalGroup> decode = Start(options);
  auto reserve = [&](uint64_t name, Answer<ReservationGrant>& grant) {
    decode->loop().Reserve(
        {.prompt_tokens = 60, .max_tokens = 4, .reservation_id = name, .done = grant.Callback()});
  };
  Answer<ReservationGrant> held, waiting, twice;
  reserve(7, held);
  ASSERT_TRUE(held.Wait().ok()) << held.Wait().status();
  reserve(9, waiting);
  reserve(9, twice);
  EXPECT_EQ(twice.Wait().status().code(), absl::StatusCode::kAlreadyExists);
  // One that waits may be given back too.
  decode->loop().Release(9, 0);
  EXPECT_EQ(waiting.Wait().status().code(), absl::StatusCode::kCancelled);
  decode->loop().Release(7, 0);
  WaitIdle(decode->loop());
}

TEST_F(NodeLoopTest, ATransferThatNeverComesEndsWithTheLease) {
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 1);
  Answer<ReservationGrant> grant;
  decode->loop().Reserve(
      {.prompt_tokens = 37, .max_tokens = 4, .lease_ms = 1000, .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok());
  const int64_t runs = int64_t{decode->leader_engine().config().layers} * 3 * 3;
  RecordingSink sink;
  decode->loop().Decode({.prompt = sequences_[0],
                         .sampling = Greedy(4),
                         .manifest = {.reservation_id = grant.Wait()->reservation_id,
                                      .epoch = grant.Wait()->epoch,
                                      .ranks = {{.runs = runs, .digest = 1}}},
                         .sink = &sink});
  EXPECT_EQ(LoadOf(decode->loop()).reservations, 1);
  clock_.AdvanceSeconds(1.1);
  EXPECT_EQ(CauseOf(sink.Wait()), FailureCause::kReservationLost) << sink.Wait();
  WaitIdle(decode->loop());
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

// What stops every step while it is shut, as a rank does that hangs.
class Gate {
 public:
  void Shut() {
    std::lock_guard lock(mutex_);
    open_ = false;
  }
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    --waiting_;
  }
  void WaitForSomebody() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !open_ && waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int waiting_ = 0;
};

class GatedCommunicator : public Communicator {
 public:
  GatedCommunicator(std::unique_ptr<Communicator> real, Gate& gate)
      : real_(std::move(real)), gate_(gate) {}
  int rank() const override { return real_->rank(); }
  int size() const override { return real_->size(); }
  absl::Status Barrier() override { return real_->Barrier(); }
  absl::Status Broadcast(int root, std::span<std::byte> bytes) override {
    if (rank() == root) gate_.Pass();
    return real_->Broadcast(root, bytes);
  }
  absl::Status Gather(int root, std::span<const std::byte> mine, std::span<const int64_t> sizes,
                      std::byte* all) override {
    return real_->Gather(root, mine, sizes, all);
  }
  absl::Status AllToAll(std::span<const std::byte> send, std::span<const int64_t> send_sizes,
                        std::byte* recv, std::span<const int64_t> recv_sizes) override {
    return real_->AllToAll(send, send_sizes, recv, recv_sizes);
  }
  void Abort(const std::string& reason) override { real_->Abort(reason); }

 private:
  const std::unique_ptr<Communicator> real_;
  Gate& gate_;
};

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
  EXPECT_EQ(loop.load().free_blocks, 23);
  clock_.AdvanceSeconds(1);
  EXPECT_TRUE(absl::IsUnavailable(loop.health())) << loop.health();
  EXPECT_THAT(std::string(loop.health().message()), HasSubstr("no step has ended for 60 s"));

  // A step that ends after all makes it well again.
  gate.Open();
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_TRUE(second.Wait().ok());
  WaitIdle(loop);
  EXPECT_TRUE(loop.health().ok()) << loop.health();
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

TEST_F(NodeLoopTest, ARenewedReservationLivesOn) {
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 1);
  const auto renew = [](NodeLoop& loop, uint64_t id, uint64_t epoch, int64_t lease_ms) {
    Answer<int64_t> answer;
    loop.Renew(
        {.reservation_id = id, .epoch = epoch, .lease_ms = lease_ms, .done = answer.Callback()});
    return answer.Wait();
  };
  Answer<ReservationGrant> grant;
  decode->loop().Reserve(
      {.prompt_tokens = 37, .max_tokens = 4, .lease_ms = 1000, .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok());
  const uint64_t id = grant.Wait()->reservation_id, epoch = grant.Wait()->epoch;
  for (int i = 0; i < 3; ++i) {
    clock_.AdvanceSeconds(0.9);
    EXPECT_EQ(renew(decode->loop(), id, epoch, 1000).value_or(-1), 1000);
  }
  EXPECT_EQ(renew(decode->loop(), id, epoch, 1'000'000).value_or(-1), 120'000) << "the upper limit";
  EXPECT_EQ(renew(decode->loop(), id, epoch, 1000).value_or(-1), 1000);
  // Another start's reservation of that name is not this one.
  const absl::Status stale = renew(decode->loop(), id, epoch + 1, 1000).status();
  EXPECT_TRUE(absl::IsNotFound(stale)) << stale;
  EXPECT_EQ(CauseOf(stale), FailureCause::kReservationLost);
  clock_.AdvanceSeconds(1.1);
  WaitIdle(decode->loop());
  const absl::Status late = renew(decode->loop(), id, epoch, 1000).status();
  EXPECT_EQ(CauseOf(late), FailureCause::kReservationLost) << late;
}

TEST_F(NodeLoopTest, APrefillEndsWithItsLeaseUnlessThatIsRenewed) {
  Gate gate;
  LocalGroupOptions options = Options(NodeRole::kPrefill, 2);
  options.wrap_communicator = [&](std::unique_ptr<Communicator> real) {
    return std::make_unique<GatedCommunicator>(std::move(real), gate);
  };
  for (bool renewed : {true, false}) {
    SCOPED_TRACE(renewed);
    std::unique_ptr<LocalGroup> prefill = Start(options);
    std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 1);
    Answer<ReservationGrant> grant;
    decode->loop().Reserve({.prompt_tokens = 37, .max_tokens = 4, .done = grant.Callback()});
    ASSERT_TRUE(grant.Wait().ok());
    ReservationGrant target = *grant.Wait();
    target.lease_ms = 1000;
    gate.Shut();
    Answer<PrefillResult> prefilled;
    prefill->loop().Prefill({.prompt = sequences_[0],
                             .sampling = Greedy(4),
                             .target = target,
                             .done = prefilled.Callback()});
    gate.WaitForSomebody();
    clock_.AdvanceSeconds(1.1);
    Answer<int64_t> renewal;
    if (renewed) {
      // Heard after the step, and still in time.
      prefill->loop().Renew({.reservation_id = target.reservation_id,
                             .epoch = target.epoch,
                             .lease_ms = 1000,
                             .done = renewal.Callback()});
    }
    gate.Open();
    const absl::Status status = prefilled.Wait().status();
    if (renewed) {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_TRUE(renewal.Wait().ok()) << renewal.Wait().status();
    } else {
      EXPECT_EQ(CauseOf(status), FailureCause::kReservationLost) << status;
    }
    WaitIdle(prefill->loop());
  }
}

TEST_F(NodeLoopTest, AFailedTransferBlamesTheDecodeNode) {
  std::unique_ptr<LocalGroup> prefill = Start(NodeRole::kPrefill, 1);
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 1);
  Answer<ReservationGrant> grant;
  decode->loop().Reserve({.prompt_tokens = 37, .max_tokens = 4, .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok());
  decode.reset();
  Answer<PrefillResult> prefilled;
  prefill->loop().Prefill({.prompt = sequences_[0],
                           .sampling = Greedy(4),
                           .target = *grant.Wait(),
                           .done = prefilled.Callback()});
  const absl::Status status = prefilled.Wait().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(CauseOf(status), FailureCause::kTargetUnreachable) << status;
  EXPECT_TRUE(prefill->loop().health().ok());
  WaitIdle(prefill->loop());
}

TEST_F(NodeLoopTest, ADrainingNodeTakesUpWhatItReservedAndNothingNew) {
  std::unique_ptr<LocalGroup> prefill = Start(NodeRole::kPrefill, 1);
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 1);
  Answer<ReservationGrant> grant;
  decode->loop().Reserve({.prompt_tokens = 37, .max_tokens = 4, .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok());
  EXPECT_FALSE(decode->loop().Drain(0)) << "something is reserved";
  EXPECT_TRUE(absl::IsUnavailable(decode->loop().health()));
  Answer<ReservationGrant> refused;
  decode->loop().Reserve({.prompt_tokens = 37, .max_tokens = 4, .done = refused.Callback()});
  EXPECT_TRUE(absl::IsUnavailable(refused.Wait().status())) << refused.Wait().status();

  Answer<PrefillResult> prefilled;
  prefill->loop().Prefill({.prompt = sequences_[0],
                           .sampling = Greedy(4),
                           .target = *grant.Wait(),
                           .done = prefilled.Callback()});
  ASSERT_TRUE(prefilled.Wait().ok()) << prefilled.Wait().status();
  RecordingSink sink;
  decode->loop().Decode({.prompt = sequences_[0],
                         .first_token = prefilled.Wait()->first.token,
                         .sampling = Greedy(4),
                         .manifest = prefilled.Wait()->manifest,
                         .sink = &sink});
  EXPECT_TRUE(decode->loop().Drain(60));
  EXPECT_TRUE(sink.Wait().ok());
  EXPECT_EQ(sink.events().size(), 3u);
  EXPECT_TRUE(prefill->loop().Drain(60));
  Answer<ScoreResult> score;
  prefill->loop().Score({.ids = {1, 2}, .done = score.Callback()});
  EXPECT_TRUE(absl::IsUnavailable(score.Wait().status()));
}

}  // namespace
}  // namespace headway
