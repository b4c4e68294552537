// What a request goes through when all is well.
#include <thread>

#include "gmock/gmock.h"
#include "runtime/router/router_fixture.h"

namespace headway {
namespace {

using testing::Contains;
using testing::ElementsAre;

TEST_F(RouterTest, MixedNodeStreamsTextAndTokens) {
  FakeNode& node = AddNode(v1::NODE_ROLE_MIXED,
                           {.tokens = {'h', 'i', kTestEnd}, .finish = v1::TOKEN_FINISH_STOP});
  GenerateInput input = Text("ab");
  input.request.sampling = {.temperature = 0.5f,
                            .top_k = 7,
                            .top_p = 0.9f,
                            .min_tokens = 1,
                            .stop_token_ids = {3, 4},
                            .ignore_eos = true,
                            .logprobs = 2};
  input.seed = 42;
  input.max_tokens = 9;
  input.request.trace = true;
  input.request.id = "request-1";
  const auto outcome = Generate(input);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(answer_.text, "hi");
  EXPECT_THAT(answer_.ids(), ElementsAre('h', 'i', kTestEnd));
  EXPECT_FLOAT_EQ(answer_.tokens[1].logprob(), -1.0f);
  ASSERT_EQ(answer_.tokens[1].top_size(), 1);
  EXPECT_EQ(answer_.tokens[1].top(0).id(), 'i');
  EXPECT_EQ(answer_.tokens[1].trace(0).position(), 101);
  EXPECT_EQ(outcome->finish, FinishReason::kStop);
  EXPECT_EQ(outcome->prompt_tokens, 3);
  EXPECT_EQ(outcome->output_tokens, 3);
  EXPECT_EQ(outcome->seed, 42u);
  EXPECT_EQ(outcome->request_id, "request-1");
  EXPECT_EQ(outcome->timings.decode_node, node.address());
  EXPECT_EQ(outcome->timings.prefill_node, node.address());
  EXPECT_GE(outcome->timings.total_us, outcome->timings.first_token_us);
  EXPECT_GT(outcome->timings.first_token_us, 0);

  EXPECT_THAT(node.events(), ElementsAre("Generate"));
  const v1::NodeGenerateRequest asked = node.last_generate();
  EXPECT_EQ(asked.request_id(), "request-1");
  EXPECT_THAT(asked.prompt(), ElementsAre(kTestStart, 'a', 'b'));
  EXPECT_EQ(asked.numerics_id(), "n-1");
  EXPECT_TRUE(asked.trace());
  EXPECT_FLOAT_EQ(asked.sampling().temperature(), 0.5f);
  EXPECT_EQ(asked.sampling().top_k(), 7);
  EXPECT_FLOAT_EQ(asked.sampling().top_p(), 0.9f);
  EXPECT_EQ(asked.sampling().seed(), 42u);
  EXPECT_EQ(asked.sampling().max_tokens(), 9);
  EXPECT_EQ(asked.sampling().min_tokens(), 1);
  EXPECT_THAT(asked.sampling().stop_token_ids(), ElementsAre(3, 4));
  EXPECT_TRUE(asked.sampling().ignore_eos());
  EXPECT_EQ(asked.sampling().logprobs(), 2);
}

TEST_F(RouterTest, PairReservesPrefillsAndDecodes) {
  FakeNode& prefill = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b', 'c'}});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b', 'c'}});
  GenerateInput input = Ids({1, 2, 3});
  input.max_tokens = 20;
  input.request.trace = true;
  const auto outcome = Generate(input);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(answer_.text, "abc");
  EXPECT_THAT(answer_.ids(), ElementsAre('a', 'b', 'c'));
  EXPECT_EQ(answer_.tokens[0].trace(0).position(), 99);
  EXPECT_EQ(outcome->finish, FinishReason::kLength);
  EXPECT_THAT(prefill.events(), ElementsAre("Prefill"));
  EXPECT_THAT(decode.events(), ElementsAre("Reserve", "Decode"));

  EXPECT_EQ(decode.last_reserve().request_id(), outcome->request_id);
  EXPECT_EQ(decode.last_reserve().numerics_id(), "n-1");
  EXPECT_EQ(prefill.last_prefill().numerics_id(), "n-1");
  EXPECT_EQ(decode.last_reserve().prompt_tokens(), 3);
  EXPECT_EQ(decode.last_reserve().max_tokens(), 20);
  EXPECT_EQ(decode.last_reserve().lease_ms(), 30'000u) << "not the whole of the deadline";
  const uint64_t reservation = decode.last_reserve().reservation_id();
  EXPECT_NE(reservation, 0u);
  EXPECT_EQ(prefill.last_prefill().target().reservation_id(), reservation);
  EXPECT_EQ(prefill.last_prefill().target().epoch(), 7u);
  EXPECT_THAT(prefill.last_prefill().target().rank_addresses(), ElementsAre("rank0"));
  EXPECT_THAT(prefill.last_prefill().prompt(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(prefill.last_prefill().trace());
  EXPECT_EQ(prefill.last_prefill().sampling().seed(), outcome->seed);
  EXPECT_EQ(decode.last_decode().manifest().reservation_id(), reservation);
  EXPECT_EQ(decode.last_decode().manifest().epoch(), 7u);
  EXPECT_EQ(decode.last_decode().manifest().ranks(0).runs(), 1);
  EXPECT_EQ(decode.last_decode().first().id(), 'a');
  EXPECT_THAT(decode.last_decode().prompt(), ElementsAre(1, 2, 3));
  EXPECT_EQ(decode.last_decode().sampling().seed(), outcome->seed);
  EXPECT_EQ(decode.last_decode().sampling().max_tokens(), 20);

  EXPECT_EQ(outcome->timings.queue_us, 11);
  EXPECT_EQ(outcome->timings.prefill_us, 22);
  EXPECT_EQ(outcome->timings.transfer_us, 33);
  EXPECT_EQ(outcome->timings.kv_bytes, 4096);
  EXPECT_EQ(outcome->timings.prefill_node, prefill.address());
  EXPECT_EQ(outcome->timings.decode_node, decode.address());
}

TEST_F(RouterTest, FirstTokenDoesNotWaitForTheDecodeNode) {
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}, .hold_after = 0});
  answer_.on_write = [&] {
    if (answer_.text == "a") {
      decode.WaitFor("waiting");
      decode.LetGo();
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(Generate(Ids({1})).ok());
  EXPECT_EQ(answer_.text, "ab");
}

TEST_F(RouterTest, StopStringAcrossTokensEndsTheNodesCall) {
  FakeNode& node = AddNode(v1::NODE_ROLE_MIXED,
                           {.tokens = TestIds("xabcdef"), .tokens_per_batch = 5, .hold_after = 5});
  GenerateInput input = Ids({1});
  input.request.stop = {"bc"};
  const auto outcome = Generate(input);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(answer_.text, "xa");
  // The token that completed the stop string is the last, though another came in its batch.
  EXPECT_THAT(answer_.ids(), ElementsAre('x', 'a', 'b', 'c'));
  EXPECT_EQ(outcome->finish, FinishReason::kStop);
  EXPECT_EQ(outcome->output_tokens, 4);
  node.WaitFor("cancelled");
}

TEST_F(RouterTest, StopStringWinsOverTheLastTokensReason) {
  AddNode(v1::NODE_ROLE_MIXED, {.tokens = TestIds("ab"), .finish = v1::TOKEN_FINISH_LENGTH});
  GenerateInput input = Ids({1});
  input.request.stop = {"b"};
  const auto outcome = Generate(input);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->finish, FinishReason::kStop);
  EXPECT_EQ(answer_.text, "a");
}

TEST_F(RouterTest, HeldBackTextComesWithTheLastToken) {
  AddNode(v1::NODE_ROLE_MIXED, {.tokens = TestIds("xb"), .finish = v1::TOKEN_FINISH_LENGTH});
  GenerateInput input = Ids({1});
  input.request.stop = {"bc"};
  const auto outcome = Generate(input);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->finish, FinishReason::kLength);
  EXPECT_EQ(answer_.text, "xb");
}

TEST_F(RouterTest, StopStringsWaitForMinTokens) {
  AddNode(v1::NODE_ROLE_MIXED, {.tokens = TestIds("bbb")});
  GenerateInput input = Ids({1});
  input.request.stop = {"b"};
  input.request.include_stop_string = true;
  input.request.sampling.min_tokens = 2;
  const auto outcome = Generate(input);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->output_tokens, 2);
  EXPECT_EQ(answer_.text, "bb");
}

TEST_F(RouterTest, NothingToDecodeGivesTheReservationBack) {
  const struct {
    const char* situation;
    std::vector<int32_t> tokens;
    std::vector<std::string> stop;
  } kCases[] = {
      {"the first token is the last", {'a'}, {}},
      {"the first token holds a stop string", {'a', 'b'}, {"a"}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.situation);
    fakes_.clear();
    router_.reset();
    nodes_.reset();
    AddNode(v1::NODE_ROLE_PREFILL, {.tokens = c.tokens});
    FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = c.tokens});
    GenerateInput input = Ids({1});
    input.request.stop = c.stop;
    const auto outcome = Generate(input);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->output_tokens, 1);
    EXPECT_THAT(decode.events(), Contains("Release"));
    EXPECT_EQ(decode.open_reservations(), 0);
  }
}

TEST_F(RouterTest, SpreadsABurstByWhatItHasHandedOut) {
  FakeNode& first = AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a'}});
  FakeNode& second = AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a'}});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Generate(Ids({1})).ok());
  EXPECT_THAT(first.events(), ElementsAre("Generate", "Generate"));
  EXPECT_THAT(second.events(), ElementsAre("Generate", "Generate"));
}

TEST_F(RouterTest, GoesWhereItNeedNotWaitOrElseToTheShortestQueue) {
  struct Load {
    int free_blocks, running, reservations, waiting, waiting_blocks;
  };
  const struct {
    const char* situation;
    Load first, second;  // 64 blocks and 32 places each; the request takes two blocks
    int chosen;
  } kCases[] = {
      {"more free blocks", {60, 5, 0, 0, 0}, {10, 5, 0, 0, 0}, 0},
      {"no place", {60, 32, 0, 0, 0}, {10, 20, 0, 0, 0}, 1},
      {"no place but for what is reserved", {60, 12, 20, 0, 0}, {10, 20, 0, 0, 0}, 1},
      {"the places are waited for", {60, 20, 0, 12, 12}, {10, 20, 0, 0, 0}, 1},
      {"the blocks are waited for", {60, 5, 0, 3, 59}, {10, 5, 0, 0, 0}, 1},
      {"others wait, and there is room for all", {60, 5, 0, 3, 6}, {10, 5, 0, 0, 0}, 0},
      {"queues everywhere", {60, 32, 0, 35, 35}, {1, 12, 0, 3, 9}, 1},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.situation);
    fakes_.clear();
    router_.reset();
    nodes_.reset();
    for (const Load& from : {c.first, c.second}) {
      v1::NodeLoad load;
      load.set_free_blocks(from.free_blocks);
      load.set_running(from.running);
      load.set_reservations(from.reservations);
      load.set_waiting(from.waiting);
      load.set_waiting_blocks(from.waiting_blocks);
      AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a'}}).SetLoad(load);
    }
    router();
    nodes_->Poll();
    GenerateInput input = Ids({1});
    input.max_tokens = 20;
    ASSERT_TRUE(Generate(input).ok());
    EXPECT_THAT(fakes_[c.chosen]->events(), ElementsAre("Generate"));
  }
}

TEST_F(RouterTest, WhatItHasHandedOutTakesPlaces) {
  v1::NodeInfo large;
  large.set_role(v1::NODE_ROLE_MIXED);
  large.set_vocabulary(kTestVocabulary);
  large.set_kv_blocks(6400);
  large.set_max_running(1);
  FakeNode& first = AddNode(large, {.tokens = {'a'}});
  FakeNode& second = AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a'}});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Generate(Ids({1})).ok());
  EXPECT_THAT(first.events(), ElementsAre("Generate"));
  EXPECT_THAT(second.events(), ElementsAre("Generate", "Generate"));
}

TEST_F(RouterTest, WhatWaitsForItsReservationIsCountedAlready) {
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a'}});
  FakeNode& first = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a'}, .lose_reserve = true});
  FakeNode& second = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a'}});
  router();
  CallScope waiting_scope(CallScope::DeadlineAfter(60));
  std::thread waiting([&] {
    Collector answer;
    EXPECT_TRUE(absl::IsCancelled(router().Generate(waiting_scope, Ids({1}), answer).status()));
  });
  first.WaitFor("Reserve");
  const auto outcome = Generate(Ids({1}));
  waiting_scope.Cancel();
  waiting.join();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->timings.decode_node, second.address());
}

TEST_F(RouterTest, SeedsAreFixedBeforeANodeSeesThem) {
  FakeNode& node = AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a'}});
  uint64_t next = 100;
  options_.new_seed = [&] { return next++; };
  for (uint64_t expected : {100u, 101u}) {
    const auto outcome = Generate(Ids({1}));
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->seed, expected);
    EXPECT_EQ(node.last_generate().sampling().seed(), expected);
  }
  GenerateInput input = Ids({1});
  input.seed = 0;  // a seed like any other
  ASSERT_TRUE(Generate(input).ok());
  EXPECT_EQ(node.last_generate().sampling().seed(), 0u);
  EXPECT_EQ(next, 102u);
}

TEST_F(RouterTest, OwnSeedsDifferAndFitJson) {
  AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a'}});
  const auto first = Generate(Ids({1})), second = Generate(Ids({1}));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->seed, second->seed);
  EXPECT_NE(first->request_id, second->request_id);
  EXPECT_LT(first->seed, uint64_t{1} << 53);
  EXPECT_LT(second->seed, uint64_t{1} << 53);
}

}  // namespace
}  // namespace headway
