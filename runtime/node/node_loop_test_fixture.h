#ifndef HEADWAY_RUNTIME_NODE_NODE_LOOP_TEST_FIXTURE_H_
#define HEADWAY_RUNTIME_NODE_NODE_LOOP_TEST_FIXTURE_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/clock.h"
#include "runtime/comm/test_communicator_decorator.h"
#include "runtime/node/local_group.h"
#include "runtime/node/node_loop.h"
#include "runtime/node/recording_sink.h"
#include "runtime/transfer/local_transport.h"
#include "tests/golden_tensors.h"
#include "tests/shared_data.h"

namespace headway {

// Whole nodes in this process, on a tiny checkpoint with 9 query and 3 KV heads, and what a router
// does with them.
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

  // The same for the transfers of all ranks: what stays open could still be written, and for ever.
  static void WaitClosed(const LocalGroup& group) {
    while (group.open_transfers() > 0) std::this_thread::yield();
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

class GatedCommunicator : public CommunicatorDecorator {
 public:
  GatedCommunicator(std::unique_ptr<Communicator> real, Gate& gate)
      : CommunicatorDecorator(std::move(real)), gate_(gate) {}
  absl::Status Broadcast(int root, std::span<std::byte> bytes) override {
    if (rank() == root) gate_.Pass();
    return CommunicatorDecorator::Broadcast(root, bytes);
  }

 private:
  Gate& gate_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_NODE_NODE_LOOP_TEST_FIXTURE_H_
