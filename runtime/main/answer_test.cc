#include "runtime/main/answer.h"

#include <deque>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace headway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Answers as told; remembers what was asked.
class FakeClient : public Client {
 public:
  const std::string& address() const override { return address_; }
  absl::StatusOr<v1::GenerateSummary> Generate(CallScope&, const v1::GenerateRequest& request,
                                               const OnResponse& on_response) override {
    asked = request;
    for (const v1::GenerateResponse& response : responses) {
      if (!on_response(response)) return absl::CancelledError("the caller has had enough");
      if (response.has_summary()) return response.summary();
    }
    return end;
  }
  absl::StatusOr<v1::ScoreResponse> Score(CallScope&, const v1::ScoreRequest&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::TokenizeResponse> Tokenize(CallScope&, const v1::TokenizeRequest&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(CallScope&,
                                                    const v1::DetokenizeRequest&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::Model> GetModel(CallScope&) override { return model; }

  std::deque<v1::GenerateResponse> responses;
  absl::Status end = absl::UnavailableError("decode node left");  // without a summary
  v1::GenerateRequest asked;
  v1::Model model;

 private:
  std::string address_ = "127.0.0.1:1";
};

v1::GenerateResponse Token(int index, int id, const std::string& text) {
  v1::GenerateResponse response;
  response.set_text(text);
  v1::OutputToken& token = *response.add_tokens();
  token.set_index(index);
  token.set_id(id);
  return response;
}

v1::GenerateResponse Last(v1::FinishReason reason) {
  v1::GenerateResponse response;
  response.mutable_summary()->set_finish_reason(reason);
  response.mutable_summary()->set_prompt_tokens(5);
  response.mutable_summary()->set_output_tokens(2);
  response.mutable_summary()->set_seed(UINT64_MAX);
  response.mutable_summary()->mutable_timings()->set_kv_bytes(2048);
  response.mutable_summary()->mutable_timings()->set_prefill_node("127.0.0.1:2");
  response.mutable_summary()->mutable_timings()->set_decode_node("127.0.0.1:3");
  return response;
}

void AddLogprob(v1::OutputToken& token, int id, float logprob) {
  v1::TokenLogprob& top = *token.add_top();
  top.set_id(id);
  top.set_logprob(logprob);
}

TEST(AnswerTest, StreamsTextAndGathersAllOfIt) {
  FakeClient client;
  CallScope scope(CallScope::DeadlineAfter(60));
  client.responses = {Token(0, 11, "Hel"), Token(1, 12, "lo"), Last(v1::FINISH_REASON_STOP)};
  testing::internal::CaptureStdout();
  const Answer answer = Ask(client, scope, v1::Prompt(), {});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "Hello\n");
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.text, "Hello");
  EXPECT_EQ(answer.tokens.size(), 2u);
  EXPECT_EQ(answer.summary.prompt_tokens(), 5);
  EXPECT_GT(answer.stats.ttft_nanos(), 0);
}

TEST(AnswerTest, IdsStandForTextWithoutATokenizer) {
  for (const bool has_tokenizer : {false, true}) {
    FakeClient client;
    client.model.set_has_tokenizer(has_tokenizer);
    CallScope scope(CallScope::DeadlineAfter(60));
    client.responses = {Token(0, 11, ""), Token(1, 12, ""), Last(v1::FINISH_REASON_STOP)};
    v1::Prompt prompt;
    prompt.mutable_token_ids()->add_ids(5);
    testing::internal::CaptureStdout();
    EXPECT_TRUE(Ask(client, scope, prompt, {}).status.ok());
    EXPECT_EQ(testing::internal::GetCapturedStdout(), has_tokenizer ? "" : "11,12\n");
  }
}

TEST(AnswerTest, KeepsQuietForJson) {
  FakeClient client;
  CallScope scope(CallScope::DeadlineAfter(60));
  client.responses = {Token(0, 11, "Hello"), Last(v1::FINISH_REASON_LENGTH)};
  testing::internal::CaptureStdout();
  AnswerOptions options;
  options.json = true;
  EXPECT_TRUE(Ask(client, scope, v1::Prompt(), options).status.ok());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(AnswerTest, AnErrorInMidStreamIsTold) {
  FakeClient client;
  CallScope scope(CallScope::DeadlineAfter(60));
  client.responses = {Token(0, 11, "Hel")};
  testing::internal::CaptureStdout();
  EXPECT_EQ(Ask(client, scope, v1::Prompt(), {}).status,
            absl::UnavailableError("decode node left"));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "Hel\n") << "what came is shown";
}

TEST(AnswerTest, JsonHasTheFixedShape) {
  Answer answer{.text = "a\"\n\xff",
                .tokens = {},
                .summary = Last(v1::FINISH_REASON_STOP).summary(),
                .stats = StreamStats(0)};
  for (const int id : {7, 8}) {
    v1::OutputToken token;
    token.set_id(id);
    token.set_logprob(-0.5f);
    AddLogprob(token, 7, -0.25f);
    AddLogprob(token, 9, -1.5f);
    answer.tokens.push_back(token);
  }
  const std::string text = AnswerJson(answer);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["token_ids"], nlohmann::json({7, 8}));
  EXPECT_EQ(json["text"], "a\"\n\xEF\xBF\xBD") << "what is no UTF-8 is replaced";
  EXPECT_EQ(json["finish_reason"], "stop");
  EXPECT_EQ(json["prompt_tokens"], 5);
  EXPECT_EQ(json["seed"], UINT64_MAX);
  const auto wanted = nlohmann::json::parse("[[[7,-0.25],[9,-1.5]],[[7,-0.25],[9,-1.5],[8,-0.5]]]");
  EXPECT_EQ(json["logprobs"], wanted) << "the chosen token is there, whatever it was";
  EXPECT_EQ(json["timings"]["kv_bytes"], 2048);
}

TEST(AnswerTest, JsonLeavesOutLogprobsThatNobodyAskedFor) {
  Answer answer{.text = "", .tokens = {v1::OutputToken()}, .summary = {}, .stats = StreamStats(0)};
  EXPECT_FALSE(nlohmann::json::parse(AnswerJson(answer)).contains("logprobs"));
}

TEST(AnswerTest, ADeadlineLeavesWhatCameAndNamesTheLimit) {
  FakeClient client;
  v1::GenerateResponse first;
  first.mutable_start()->set_prompt_tokens(5);
  first.mutable_start()->set_seed(UINT64_MAX);
  client.responses = {first, Token(0, 11, "Hel"), Token(1, 12, "lo")};
  client.end = absl::DeadlineExceededError("Deadline Exceeded");
  AnswerOptions options;
  options.json = true;
  options.timeout.seconds = 0;
  CallScope scope(options.timeout.Deadline());
  const Answer answer = Ask(client, scope, v1::Prompt(), options);
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(answer.status.message()),
              HasSubstr("0 s, the limit that --timeout sets"));
  const auto json = nlohmann::json::parse(AnswerJson(answer));
  EXPECT_EQ(json["token_ids"], nlohmann::json({11, 12}));
  EXPECT_EQ(json["text"], "Hello");
  EXPECT_EQ(json["finish_reason"], "cancelled");
  EXPECT_EQ(json["error"], std::string(answer.status.message()));
  EXPECT_EQ(json["prompt_tokens"], 5);
  EXPECT_EQ(json["seed"], UINT64_MAX);
  EXPECT_TRUE(json["timings"].contains("client_ttft_us"));
}

TEST(AnswerTest, AnInterruptIsCalledOne) {
  FakeClient client;
  client.end = absl::CancelledError("CANCELLED");
  CallScope scope(CallScope::DeadlineAfter(60));
  scope.Cancel();
  const Answer answer = Ask(client, scope, v1::Prompt(), {});
  EXPECT_EQ(answer.status, absl::CancelledError("interrupted"));
  EXPECT_FALSE(nlohmann::json::parse(AnswerJson(answer)).contains("prompt_tokens"))
      << "nobody told";
}

TEST(AnswerTest, TheServersOwnLimitKeepsItsWords) {
  FakeClient client;
  CallScope scope(CallScope::DeadlineAfter(60));
  client.end = absl::DeadlineExceededError("the client took nothing");
  EXPECT_EQ(Ask(client, scope, v1::Prompt(), {}).status, client.end);
}

TEST(AnswerTest, StatsTellTheBytesMovedAndBetweenWhom) {
  Answer answer{.text = "",
                .tokens = {},
                .summary = Last(v1::FINISH_REASON_LENGTH).summary(),
                .stats = StreamStats(0)};
  answer.stats.Add(2'500'000, 1);
  answer.stats.Add(12'500'000, 1);
  EXPECT_THAT(AnswerStats(answer),
              AllOf(HasSubstr("5 of prompt, 2 of answer (length)"), HasSubstr("TTFT        2.5 ms"),
                    HasSubstr("p50 10.0 ms, p99 10.0 ms"), HasSubstr("100.0 tokens/s"),
                    HasSubstr("2048 bytes), 127.0.0.1:2 to 127.0.0.1:3")));
}

TEST(AnswerTest, FlagsBecomeTheOptionsOfTheRequest) {
  Flags flags({.verb = "generate", .summary = "", .description = "", .example = ""});
  AnswerOptions options;
  AddAnswerFlags(flags, &options);
  std::vector<std::string> args = {
      "--temperature", "0.5", "--top-k", "40", "--top-p",    "0.9", "--seed",       "7",
      "--stop",        "a,b", "--stop",  "c",  "--logprobs", "0",   "--ignore-eos", "--json"};
  std::vector<char*> pointers;
  for (std::string& arg : args) pointers.push_back(arg.data());
  std::string text;
  ASSERT_EQ(flags.Parse(pointers, &text), Flags::Outcome::kRun) << text;
  EXPECT_EQ(options.generate.temperature(), 0.5f);
  EXPECT_EQ(options.generate.top_k(), 40);
  EXPECT_EQ(options.generate.top_p(), 0.9f);
  EXPECT_EQ(options.generate.seed(), 7u);
  ASSERT_EQ(options.generate.stop_size(), 2) << "a comma is part of a stop string";
  EXPECT_EQ(options.generate.stop(0), "a,b");
  EXPECT_TRUE(options.generate.has_logprobs());
  EXPECT_EQ(options.generate.logprobs(), 0);
  EXPECT_TRUE(options.generate.ignore_eos());
  EXPECT_FALSE(options.generate.has_max_tokens()) << "left to the router";
}

TEST(AnswerTest, WhatNoRequestMayHaveIsAMistakeOfUsage) {
  const std::string long_stop(257, 'x');
  std::vector<std::string> many_stops;
  for (int i = 0; i < 17; ++i) many_stops.insert(many_stops.end(), {"--stop", "x"});
  std::string many_ids = "1";
  for (int i = 0; i < 64; ++i) many_ids += ",1";
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{"--top-p", "0"}, "--top-p: \"0\" is not above 0, at most 1"},
      {{"--top-p", "1.5"}, "from 0 to 1"},
      {{"--temperature", "101"}, "from 0 to 100"},
      {{"--stop", ""}, "--stop: '' has 0 bytes, must have 1 to 256"},
      {{"--stop", long_stop}, "has 257 bytes, must have 1 to 256"},
      {many_stops, "--stop is given 17 times, at most 16"},
      {{"--stop-token-ids", many_ids}, "--stop-token-ids has 65 ids, at most 64"},
      {{"--min-tokens", "5", "--max-tokens", "4"},
       "--min-tokens: \"5\" is above --max-tokens, which is 4"},
      {{"--min-tokens", "129"}, "is above --max-tokens, which is 128"}};
  for (auto [args, part] : mistakes) {
    Flags flags({.verb = "generate", .summary = "", .description = "", .example = ""});
    AnswerOptions options;
    AddAnswerFlags(flags, &options);
    std::vector<char*> pointers;
    for (std::string& arg : args) pointers.push_back(arg.data());
    std::string text;
    EXPECT_EQ(flags.Parse(pointers, &text), Flags::Outcome::kUsage) << part;
    EXPECT_THAT(text, HasSubstr(part));
  }
}

}  // namespace
}  // namespace headway
