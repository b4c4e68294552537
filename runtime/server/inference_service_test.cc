#include "runtime/server/inference_service.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "proto/headway/v1/inference.grpc.pb.h"
#include "runtime/cluster/channel.h"
#include "runtime/cluster/error_details.h"
#include "runtime/cluster/fake_node.h"
#include "runtime/router/test_text.h"
#include "runtime/server/client.h"
#include "runtime/server/server.h"

namespace headway {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Client, server, router and nodes that play a script, with real gRPC between all of them.
class InferenceServiceTest : public testing::Test {
 protected:
  FakeNode& AddNode(v1::NodeRole role, FakeNode::Script script = {}) {
    v1::NodeInfo info;
    info.set_role(role);
    info.set_vocabulary(kTestVocabulary);
    fakes_.push_back(std::make_unique<FakeNode>(info));
    fakes_.back()->SetScript(std::move(script));
    return *fakes_.back();
  }

  // After the nodes have been added.
  Client& client() {
    if (client_) return *client_;
    std::vector<NodeAddress> addresses;
    for (const auto& fake : fakes_) addresses.push_back({fake->address()});
    nodes_ = std::make_unique<Membership>(addresses, MembershipOptions{.poll_seconds = 0.02},
                                          Clock::Real());
    nodes_->Poll();
    router_ = std::make_unique<Router>(*nodes_, *encoder_,
                                       RouterOptions{.end_token_ids = {kTestEnd}}, Clock::Real());
    service_ = NewInferenceService(*router_, options_, clock_);
    server_ = *Server::Start(
        "127.0.0.1:0", {{.service = service_.get(), .name = v1::Inference::service_full_name()}});
    nodes_->Start([this](bool serving) { server_->SetServing(serving); });
    auto client = Client::Connect(scope_, server_->address(), 60);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    return *client_;
  }

  void TearDown() override {
    if (server_) server_->Shutdown(0);
    nodes_.reset();
  }

  // Collects into text_ and ids_.
  absl::StatusOr<v1::GenerateSummary> Generate(const v1::GenerateRequest& request) {
    text_.clear();
    ids_.clear();
    return client().Generate(scope_, request, [this](const v1::GenerateResponse& response) {
      text_ += response.text();
      for (const v1::OutputToken& token : response.tokens()) ids_.push_back(token.id());
      last_ = response;
      return true;
    });
  }

  static v1::GenerateRequest Ids(std::vector<int32_t> ids) {
    v1::GenerateRequest request;
    request.mutable_prompt()->mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
    return request;
  }

  InferenceServiceOptions options_;
  FakeClock clock_;
  std::unique_ptr<PromptEncoder> encoder_ = TestEncoder();
  std::vector<std::unique_ptr<FakeNode>> fakes_;
  std::unique_ptr<Membership> nodes_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> client_;
  CallScope scope_{CallScope::DeadlineAfter(60)};
  std::string text_;
  std::vector<int32_t> ids_;
  v1::GenerateResponse last_;
};

TEST_F(InferenceServiceTest, StreamsOneAnswer) {
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'h', 'i', kTestEnd}});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE,
                             {.tokens = {'h', 'i', kTestEnd}, .finish = v1::TOKEN_FINISH_STOP});
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text("ab");
  request.set_request_id("request-1");
  v1::GenerateOptions& options = *request.mutable_options();
  options.set_temperature(0.5f);
  options.set_top_k(7);
  options.set_top_p(0.9f);
  options.set_seed(0);
  options.set_max_tokens(9);
  options.set_min_tokens(1);
  options.add_stop("zz");
  options.add_stop_token_ids(5);
  options.set_ignore_eos(true);
  options.set_logprobs(0);
  options.set_trace(true);
  const auto summary = Generate(request);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(text_, "hi");
  EXPECT_THAT(ids_, ElementsAre('h', 'i', kTestEnd));
  EXPECT_TRUE(last_.has_summary());
  EXPECT_EQ(summary->finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(summary->prompt_tokens(), 3);
  EXPECT_EQ(summary->output_tokens(), 3);
  EXPECT_EQ(summary->seed(), 0u);
  EXPECT_EQ(summary->request_id(), "request-1");
  EXPECT_EQ(summary->timings().kv_bytes(), 4096);
  EXPECT_EQ(summary->timings().prefill_us(), 22);
  EXPECT_EQ(summary->timings().decode_node(), decode.address());
  const v1::NodeSampling sampling = decode.last_decode().sampling();
  EXPECT_FLOAT_EQ(sampling.temperature(), 0.5f);
  EXPECT_EQ(sampling.top_k(), 7);
  EXPECT_FLOAT_EQ(sampling.top_p(), 0.9f);
  EXPECT_EQ(sampling.max_tokens(), 9);
  EXPECT_EQ(sampling.min_tokens(), 1);
  EXPECT_THAT(sampling.stop_token_ids(), ElementsAre(5));
  EXPECT_TRUE(sampling.ignore_eos());
  EXPECT_EQ(sampling.logprobs(), 0);
  EXPECT_TRUE(decode.last_decode().trace());
}

TEST_F(InferenceServiceTest, LogprobsAndTracesOnlyWhenAskedFor) {
  AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'h', 'i'}});
  v1::GenerateRequest request = Ids({1});
  std::vector<v1::OutputToken> tokens;
  const auto collect = [&](const v1::GenerateResponse& response) {
    tokens.insert(tokens.end(), response.tokens().begin(), response.tokens().end());
    return true;
  };
  ASSERT_TRUE(client().Generate(scope_, request, collect).ok());
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_FALSE(tokens[1].has_logprob());
  EXPECT_EQ(tokens[1].top_size(), 0);
  tokens.clear();
  request.mutable_options()->set_logprobs(1);
  ASSERT_TRUE(client().Generate(scope_, request, collect).ok());
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[1].index(), 1);
  EXPECT_FLOAT_EQ(tokens[1].logprob(), -1.0f);
  ASSERT_EQ(tokens[1].top_size(), 1);
  EXPECT_EQ(tokens[1].top(0).id(), 'i');
  EXPECT_FLOAT_EQ(tokens[1].top(0).logprob(), -1.0f);
  EXPECT_EQ(tokens[1].trace(0).position(), 101);
}

TEST_F(InferenceServiceTest, UnsetFieldsAreTheirDefaults) {
  FakeNode& node = AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a'}});
  ASSERT_TRUE(Generate(Ids({1})).ok());
  const v1::NodeSampling sampling = node.last_generate().sampling();
  EXPECT_EQ(sampling.temperature(), 0);
  EXPECT_EQ(sampling.top_k(), 0);
  EXPECT_EQ(sampling.top_p(), 1);
  EXPECT_EQ(sampling.max_tokens(), 128);
  EXPECT_EQ(sampling.min_tokens(), 0);
  EXPECT_EQ(sampling.logprobs(), -1);
  EXPECT_FALSE(sampling.ignore_eos());
}

TEST_F(InferenceServiceTest, ErrorsHaveTheSameTextAtTheClient) {
  FakeNode& node = AddNode(
      v1::NODE_ROLE_MIXED,
      {.tokens = {'a'}, .stream = absl::ResourceExhaustedError("queue: 256 waiting, limit 256")});
  EXPECT_EQ(Generate(Ids({1})).status(),
            absl::ResourceExhaustedError("queue: 256 waiting, limit 256"));
  const size_t asked = node.events().size();

  v1::GenerateRequest request = Ids({1});
  request.mutable_options()->set_top_p(1.5f);
  absl::Status status = Generate(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("top_p"), HasSubstr("1.5")));
  request = Ids({1});
  for (const int logprobs : {-1, 21}) {
    request.mutable_options()->set_logprobs(logprobs);
    EXPECT_EQ(Generate(request).status(),
              absl::InvalidArgumentError(absl::StrCat(
                  "logprobs is ", logprobs, ", must be 0 to 20; leave it unset for none")));
  }
  status = Generate({}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("prompt"));
  EXPECT_EQ(client().Score(scope_, {}).status(), status);
  EXPECT_EQ(client().Tokenize(scope_, {}).status(), status);
  EXPECT_EQ(node.events().size(), asked);
}

// It is refused by its length, before it is in memory as a whole; the connection goes on.
TEST_F(InferenceServiceTest, AMessageBeyondTheLimitIsRefused) {
  FakeNode& node = AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a'}});
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text(std::string(size_t{kMaxMessageBytes} + 1, '\n'));
  const absl::Status status = Generate(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(kMaxMessageBytes)));
  EXPECT_THAT(node.events(), IsEmpty());
  EXPECT_TRUE(Generate(Ids({1})).ok());
}

TEST_F(InferenceServiceTest, AClientThatLeavesIsHeardOfByTheNodes) {
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b', 'c', 'd'}});
  FakeNode& decode =
      AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b', 'c', 'd'}, .hold_after = 2});
  int heard = 0;
  const auto summary =
      client().Generate(scope_, Ids({1}), [&](const v1::GenerateResponse& response) {
        heard += response.tokens_size();
        return heard < 3;
      });
  EXPECT_EQ(summary.status().code(), absl::StatusCode::kCancelled);
  decode.WaitFor("cancelled");
  EXPECT_EQ(decode.open_reservations(), 0);
}

TEST_F(InferenceServiceTest, WhatIsKnownComesBeforeAnythingIsComputed) {
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a'}, .hold_prefill = true});
  AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a'}});
  v1::GenerateRequest request = Ids({1, 2, 3});
  request.set_request_id("request-1");
  request.mutable_options()->set_seed(7);
  v1::GenerateResponse first;
  const auto summary =
      client().Generate(scope_, request, [&](const v1::GenerateResponse& response) {
        first = response;
        return false;
      });
  EXPECT_EQ(summary.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(first.start().prompt_tokens(), 3);
  EXPECT_EQ(first.start().seed(), 7u);
  EXPECT_EQ(first.start().request_id(), "request-1");
  EXPECT_EQ(first.tokens_size(), 0);
}

TEST_F(InferenceServiceTest, AClientThatLeavesDuringPrefillGivesTheBlocksBack) {
  FakeNode& prefill = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b'}, .hold_prefill = true});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b'}});
  client();
  std::thread leaver([&] {
    prefill.WaitFor("waiting");
    scope_.Cancel();
  });
  EXPECT_EQ(Generate(Ids({1})).status().code(), absl::StatusCode::kCancelled);
  leaver.join();
  prefill.WaitFor("cancelled");
  decode.WaitFor("Release");
  EXPECT_EQ(decode.open_reservations(), 0);
}

TEST_F(InferenceServiceTest, DeadlinesReachTheNodes) {
  FakeNode& node = AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a', 'b'}, .hold_after = 1});
  client();
  CallScope scope(CallScope::DeadlineAfter(0.3));
  const auto summary =
      client().Generate(scope, Ids({1}), [](const v1::GenerateResponse&) { return true; });
  EXPECT_EQ(summary.status().code(), absl::StatusCode::kDeadlineExceeded);
  node.WaitFor("cancelled");
}

TEST_F(InferenceServiceTest, CallsWithoutADeadlineGetTheServers) {
  options_.default_deadline_seconds = 0.3;
  FakeNode& node = AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a', 'b'}, .hold_after = 1});
  client();
  const auto stub = v1::Inference::NewStub(OpenChannel(server_->address()));
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, Ids({1}));
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  node.WaitFor("cancelled");
}

TEST_F(InferenceServiceTest, ARouterThatStopsIsUnavailable) {
  FakeNode& node = AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a', 'b'}, .hold_after = 1});
  client();
  std::thread stopper([&] {
    node.WaitFor("waiting");
    server_->Shutdown(0);
  });
  const absl::Status status = Generate(Ids({1})).status();
  stopper.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(server_->address()));
  node.WaitFor("cancelled");
}

TEST_F(InferenceServiceTest, MoreThanTheLimitIsRefusedAtOnce) {
  options_.max_requests = 1;
  FakeNode& node = AddNode(v1::NODE_ROLE_MIXED, {.tokens = {'a', 'b'}, .hold_after = 1});
  client();
  std::thread first([&] { EXPECT_TRUE(Generate(Ids({1})).ok()); });
  node.WaitFor("waiting");
  for (const absl::Status& status :
       {client()
            .Generate(scope_, Ids({1}), [](const v1::GenerateResponse&) { return true; })
            .status(),
        client().GetModel(scope_).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("its limit is 1"));
    EXPECT_EQ(RetryDelaySeconds(status), 1.0);
  }
  node.LetGo();
  first.join();
}

// A client that has taken one message of a stream larger than gRPC takes in on the way from node to
// router to client (48 MB), and takes no more.
class StalledStreamTest : public InferenceServiceTest {
 protected:
  static constexpr int kTokens = 6000;

  void Start() {
    v1::NodeInfo info;
    info.set_role(v1::NODE_ROLE_MIXED);
    info.set_vocabulary(kTestVocabulary);
    info.set_max_positions(2 * kTokens);
    info.set_kv_blocks(kTokens);
    fakes_.push_back(std::make_unique<FakeNode>(info));
    node().SetScript({.tokens = std::vector<int32_t>(kTokens, 'a'), .trace_layers = 1000});
    client();
    stub_ = v1::Inference::NewStub(OpenChannel(server_->address()));
    v1::GenerateRequest request = Ids({1});
    request.mutable_options()->set_max_tokens(kTokens);
    reader_ = stub_->Generate(&context_, request);
    ASSERT_TRUE(reader_->Read(&response_));
    // The node comes to rest, seen over some hundred other calls.
    for (int quiet = 0; quiet < 200; ++quiet) {
      client().GetModel(scope_).status().IgnoreError();
      if (node().tokens_sent() != sent_) quiet = 0;
      sent_ = node().tokens_sent();
    }
    ASSERT_LT(sent_, kTokens);
  }
  FakeNode& node() { return *fakes_.back(); }
  bool Cancelled() { return std::ranges::count(node().events(), "cancelled") > 0; }

  std::unique_ptr<v1::Inference::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
  v1::GenerateResponse response_;
  int sent_ = 0;  // tokens that had left the node when it came to rest
};

TEST_F(StalledStreamTest, HoldsTheNodeBackAndGoesOnWhenTheClientDoes) {
  ASSERT_NO_FATAL_FAILURE(Start());
  int received = response_.tokens_size();
  while (received <= sent_ && reader_->Read(&response_)) {
    for (const v1::OutputToken& token : response_.tokens()) ASSERT_EQ(token.index(), received++);
  }
  EXPECT_GT(node().tokens_sent(), sent_);
  context_.TryCancel();
  reader_->Finish();
  node().WaitFor("cancelled");
}

TEST_F(StalledStreamTest, EndsAfterALimit) {
  options_.max_requests = 2;
  ASSERT_NO_FATAL_FAILURE(Start());
  clock_.AdvanceSeconds(options_.stall_seconds - 1);
  for (int i = 0; i < 200; ++i) client().GetModel(scope_).status().IgnoreError();
  EXPECT_FALSE(Cancelled());
  // More than once: what was still on its way on a busy machine began to wait only now.
  while (!Cancelled()) {
    clock_.AdvanceSeconds(2);
    client().GetModel(scope_).status().IgnoreError();
  }
  // A client that reads on gets what had left, and then hears why there is no more.
  int received = response_.tokens_size();
  while (reader_->Read(&response_)) received += response_.tokens_size();
  EXPECT_LT(received, kTokens);
  const grpc::Status status = reader_->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("took nothing for 60 s"));
  // Its thread is free again: of a limit of two, another stream leaves one.
  node().SetScript({.tokens = {'a', 'b'}, .hold_after = 1});
  std::thread first([&] { EXPECT_TRUE(Generate(Ids({1})).ok()); });
  node().WaitFor("waiting");
  while (!client().GetModel(scope_).ok()) std::this_thread::yield();
  node().LetGo();
  first.join();
}

TEST_F(InferenceServiceTest, ManyAtOnce) {
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = TestIds("abcdefgh")});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = TestIds("abcdefgh")});
  client();
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&] {
      for (int j = 0; j < 4; ++j) {
        std::string text;
        const auto summary =
            client().Generate(scope_, Ids({1}), [&](const v1::GenerateResponse& response) {
              text += response.text();
              return true;
            });
        EXPECT_TRUE(summary.ok()) << summary.status();
        EXPECT_EQ(text, "abcdefgh");
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(decode.open_reservations(), 0);
}

TEST_F(InferenceServiceTest, ManyThatLeave) {
  AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a', 'b', 'c'}});
  FakeNode& decode = AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a', 'b', 'c'}, .hold_after = 1});
  client();
  std::vector<std::thread> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back([&, i] {
      CallScope scope(CallScope::DeadlineAfter(60));
      int heard = 0;
      const auto summary =
          client().Generate(scope, Ids({1}), [&](const v1::GenerateResponse& response) {
            heard += response.tokens_size();
            return heard < 1 + i % 2;
          });
      EXPECT_EQ(summary.status().code(), absl::StatusCode::kCancelled);
    });
  }
  for (std::thread& client : clients) client.join();
  // Every reservation that was made ended one way or the other.
  server_->Shutdown(60);
  EXPECT_EQ(decode.open_reservations(), 0);
}

TEST_F(InferenceServiceTest, ScoresTokenizesAndDescribes) {
  AddNode(v1::NODE_ROLE_MIXED);
  v1::ScoreRequest score;
  score.mutable_prompt()->set_text("ab");
  score.set_top(1);
  const auto scores = client().Score(scope_, score);
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_THAT(scores->token_ids(), ElementsAre(kTestStart, 'a', 'b'));
  EXPECT_THAT(scores->token_logprobs(), ElementsAre(-1.0f, -2.0f));
  ASSERT_EQ(scores->top_size(), 2);
  EXPECT_EQ(scores->top(1).tokens(0).id(), 'b');
  EXPECT_FLOAT_EQ(scores->top(1).tokens(0).logprob(), -2.0f);

  v1::TokenizeRequest tokenize;
  tokenize.mutable_prompt()->set_text("ab");
  const auto ids = client().Tokenize(scope_, tokenize);
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_THAT(ids->token_ids(), ElementsAre(kTestStart, 'a', 'b'));

  v1::DetokenizeRequest detokenize;
  for (int32_t id : {int32_t{'a'}, kTestEnd}) detokenize.add_token_ids(id);
  EXPECT_EQ(client().Detokenize(scope_, detokenize)->text(), "a");
  detokenize.set_include_control_tokens(true);
  EXPECT_EQ(client().Detokenize(scope_, detokenize)->text(), "a<|end|>");

  const auto model = client().GetModel(scope_);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->name(), "fake");
  EXPECT_EQ(model->numerics_id(), "n-1");
  EXPECT_EQ(model->max_positions(), 256);
  EXPECT_TRUE(model->has_tokenizer());
  EXPECT_THAT(model->end_token_ids(), ElementsAre(kTestEnd));
}

TEST_F(InferenceServiceTest, HealthFollowsTheNodes) {
  FakeNode& prefill = AddNode(v1::NODE_ROLE_PREFILL, {.tokens = {'a'}});
  AddNode(v1::NODE_ROLE_DECODE, {.tokens = {'a'}});
  client();
  prefill.Stop();
  EXPECT_EQ(Generate(Ids({1})).status().code(), absl::StatusCode::kUnavailable);
  const auto late = Client::Connect(scope_, server_->address(), 0.2);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(late.status().message()),
              AllOf(HasSubstr(server_->address()), HasSubstr("does not serve")));
}

TEST(ClientTest, NobodyThere) {
  FakeNode gone(v1::NODE_ROLE_MIXED);
  gone.Stop();
  // Refused at once: nothing waits for the ten minutes.
  CallScope scope(CallScope::DeadlineAfter(600));
  const auto client = Client::Connect(scope, gone.address(), 600);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.status().message()),
              AllOf(HasSubstr(gone.address()), HasSubstr("Connection refused"),
                    HasSubstr("is a router running there?")));
}

// A port where nobody accepts: the connection is made by the system, but nobody speaks.
TEST(ClientTest, NobodySpeaks) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string place = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  CallScope scope(CallScope::DeadlineAfter(600));
  const auto client = Client::Connect(scope, place, 0.2);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.status().message()),
              AllOf(HasSubstr(place), HasSubstr("nobody answered within 0.2 s")));
  close(listener);
}

TEST(ClientTest, NotARouter) {
  const auto server = Server::Start("127.0.0.1:0", {});
  ASSERT_TRUE(server.ok());
  CallScope scope(CallScope::DeadlineAfter(60));
  const auto client = Client::Connect(scope, (*server)->address(), 60);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("not a router"));
}

}  // namespace
}  // namespace headway
