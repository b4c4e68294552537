// What a step of a whole node costs beside its arithmetic: no allocation on any rank, and one
// message however long the sequences are.
#include <atomic>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/clock.h"
#include "runtime/comm/test_communicator_decorator.h"
#include "runtime/node/local_group.h"
#include "runtime/node/recording_sink.h"
#include "runtime/transfer/local_transport.h"
#include "tests/allocation_counter.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

// Reads a meter at two of its tokens, on the loop's thread.
class MeteringSink : public TokenSink {
 public:
  MeteringSink(int first, int last, std::function<int64_t()> meter)
      : first_(first), last_(last), meter_(std::move(meter)) {}

  void OnToken(TokenEvent event) override {
    if (event.index == first_) before_ = meter_();
    if (event.index == last_) after_ = meter_();
  }
  void OnDone(const absl::Status& status) override { done_.OnDone(status); }

  // What the meter rose by from the one token to the other, -1 unless both came.
  int64_t Wait() {
    const absl::Status status = done_.Wait();
    EXPECT_TRUE(status.ok()) << status;
    return before_ < 0 || after_ < 0 ? -1 : after_ - before_;
  }

 private:
  const int first_, last_;
  const std::function<int64_t()> meter_;
  int64_t before_ = -1, after_ = -1;
  RecordingSink done_;
};

// Counts the leader's broadcasts and the bytes in them.
struct Traffic {
  std::atomic<int64_t> broadcasts = 0, bytes = 0;
};

class MeteredCommunicator : public CommunicatorDecorator {
 public:
  MeteredCommunicator(std::unique_ptr<Communicator> real, Traffic& traffic)
      : CommunicatorDecorator(std::move(real)), traffic_(traffic) {}
  absl::Status Broadcast(int root, std::span<std::byte> bytes) override {
    if (rank() == root) {
      ++traffic_.broadcasts;
      traffic_.bytes += static_cast<int64_t>(bytes.size());
    }
    return CommunicatorDecorator::Broadcast(root, bytes);
  }

 private:
  Traffic& traffic_;
};

class NodeStepTest : public ::testing::Test {
 protected:
  NodeStepTest() { checkpoint_ = *Checkpoint::Open(GoldenPath("models/llama_gqa_9_3")); }

  LocalGroupOptions Options(NodeRole role, int degree) {
    LocalGroupOptions options;
    options.node.role = role;
    options.degree = degree;
    options.engine.threads = 2;
    options.engine.kv_blocks = 64;
    options.engine.limits = {.max_rows = 64, .max_logit_rows = 16, .max_positions = 128};
    if (role != NodeRole::kMixed) options.new_transport = [this](int) { return hub_.Create(); };
    return options;
  }
  std::unique_ptr<LocalGroup> Start(const LocalGroupOptions& options) {
    absl::StatusOr<std::unique_ptr<LocalGroup>> group =
        LocalGroup::Create(*checkpoint_, options, clock_);
    EXPECT_TRUE(group.ok()) << group.status();
    return *std::move(group);
  }

  static std::vector<int32_t> Prompt(int length) {
    std::vector<int32_t> prompt(length);
    for (int i = 0; i < length; ++i) prompt[i] = (7 * i + length) % 163;
    return prompt;
  }

  FakeClock clock_;
  LocalTransportHub hub_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_F(NodeStepTest, DecodingAllocatesNothingOnAnyRank) {
  const std::unique_ptr<LocalGroup> group = Start(Options(NodeRole::kMixed, 2));
  // Those beside the metered one end after it. Nothing here allocates but the node.
  MeteringSink greedy(-1, -1, {}), sampled(-1, -1, {}), metered(10, 70, Allocations);
  group->loop().Generate({.prompt = Prompt(5),
                          .sampling = {.max_tokens = 100, .ignore_eos = true, .logprobs = 0},
                          .sink = &greedy});
  group->loop().Generate({.prompt = Prompt(20),
                          .sampling = {.temperature = 0.8f,
                                       .top_k = 20,
                                       .top_p = 0.9f,
                                       .seed = 3,
                                       .max_tokens = 100,
                                       .min_tokens = 100,
                                       .stop_token_ids = {1, 2}},
                          .sink = &sampled});
  group->loop().Generate(
      {.prompt = Prompt(17), .sampling = {.max_tokens = 75, .ignore_eos = true}, .sink = &metered});
  EXPECT_EQ(metered.Wait(), 0);
  EXPECT_GT(Allocations(), 0);  // it does count
  greedy.Wait();
  sampled.Wait();
}

TEST_F(NodeStepTest, LookingAtTransfersAllocatesNothingEither) {
  const std::unique_ptr<LocalGroup> decode = Start(Options(NodeRole::kDecode, 2));
  const SamplingParams sampling = {.max_tokens = 75, .ignore_eos = true};
  Answer<ReservationGrant> grant, other;
  decode->loop().Reserve({.prompt_tokens = 20, .max_tokens = 75, .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok()) << grant.Wait().status();
  Answer<PrefillResult> prefilled;
  const std::unique_ptr<LocalGroup> prefill = Start(Options(NodeRole::kPrefill, 1));
  prefill->loop().Prefill({.prompt = Prompt(20),
                           .sampling = sampling,
                           .target = *grant.Wait(),
                           .done = prefilled.Callback()});
  ASSERT_TRUE(prefilled.Wait().ok()) << prefilled.Wait().status();
  prefill->loop().Stop();

  // Its KV never comes.
  decode->loop().Reserve({.prompt_tokens = 20, .max_tokens = 4, .done = other.Callback()});
  ASSERT_TRUE(other.Wait().ok()) << other.Wait().status();
  Manifest missing = prefilled.Wait()->manifest;
  missing.reservation_id = other.Wait()->reservation_id;
  RecordingSink waiting;
  decode->loop().Decode(
      {.prompt = Prompt(20), .sampling = {.max_tokens = 4}, .manifest = missing, .sink = &waiting});
  MeteringSink metered(10, 70, Allocations);
  decode->loop().Decode({.prompt = Prompt(20),
                         .first_token = prefilled.Wait()->first.token,
                         .sampling = sampling,
                         .manifest = prefilled.Wait()->manifest,
                         .sink = &metered});
  EXPECT_EQ(metered.Wait(), 0);
  decode->loop().Stop();
  EXPECT_FALSE(waiting.Wait().ok());
}

TEST_F(NodeStepTest, LongSequencesCostNoMoreMessagesThanShortOnes) {
  constexpr int kSequences = 40, kPositions = 500, kFirst = 10, kLast = 40;
  Traffic traffic;
  LocalGroupOptions options = Options(NodeRole::kMixed, 2);
  options.engine.kv_blocks = kSequences * 32;
  options.engine.limits.max_positions = kPositions;
  options.engine.limits.max_logit_rows = kSequences;
  options.wrap_communicator = [&](std::unique_ptr<Communicator> real) {
    return std::make_unique<MeteredCommunicator>(std::move(real), traffic);
  };
  const std::unique_ptr<LocalGroup> group = Start(options);
  // Their tables together have 5,000 bytes: more than a message.
  std::vector<std::unique_ptr<RecordingSink>> others;
  for (int i = 1; i < kSequences; ++i) {
    others.push_back(std::make_unique<RecordingSink>());
    group->loop().Generate({.prompt = Prompt(4 + i),
                            .sampling = {.max_tokens = kPositions - 30, .ignore_eos = true},
                            .sink = others.back().get()});
  }
  MeteringSink broadcasts(kFirst, kLast, [&] { return traffic.broadcasts.load(); });
  group->loop().Generate({.prompt = Prompt(4),
                          .sampling = {.max_tokens = kLast + 1, .ignore_eos = true},
                          .sink = &broadcasts});
  EXPECT_EQ(broadcasts.Wait(), kLast - kFirst);
  MeteringSink bytes(kFirst, kLast, [&] { return traffic.bytes.load(); });
  group->loop().Generate({.prompt = Prompt(4),
                          .sampling = {.max_tokens = kLast + 1, .ignore_eos = true},
                          .sink = &bytes});
  EXPECT_EQ(bytes.Wait(), (kLast - kFirst) * 4096);
  group->loop().Stop();
  for (const auto& other : others) other->Wait().IgnoreError();  // may be under way
}

}  // namespace
}  // namespace headway
