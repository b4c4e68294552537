#ifndef HEADWAY_RUNTIME_ROUTER_ROUTER_FIXTURE_H_
#define HEADWAY_RUNTIME_ROUTER_ROUTER_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/cluster/fake_node.h"
#include "runtime/router/router.h"
#include "runtime/router/test_text.h"

namespace headway {

// Collects an answer.
class Collector : public DeltaSink {
 public:
  absl::Status Begin(const GenerateStart& told) override {
    start = told;
    return absl::OkStatus();
  }
  absl::Status Write(GenerateDelta delta) override {
    text += delta.text;
    for (v1::Token& token : delta.tokens) tokens.push_back(std::move(token));
    return on_write ? on_write() : absl::OkStatus();
  }
  std::vector<int32_t> ids() const {
    std::vector<int32_t> ids;
    for (const v1::Token& token : tokens) ids.push_back(token.id());
    return ids;
  }

  GenerateStart start;
  std::string text;
  std::vector<v1::Token> tokens;
  std::function<absl::Status()> on_write;
};

// A router in front of nodes that play a script.
class RouterTest : public testing::Test {
 protected:
  FakeNode& AddNode(v1::NodeRole role, FakeNode::Script script = {}) {
    v1::NodeInfo info;
    info.set_role(role);
    info.set_vocabulary(kTestVocabulary);
    return AddNode(info, std::move(script));
  }
  FakeNode& AddNode(v1::NodeInfo info, FakeNode::Script script = {}) {
    fakes_.push_back(std::make_unique<FakeNode>(std::move(info)));
    fakes_.back()->SetScript(std::move(script));
    return *fakes_.back();
  }

  // After the nodes have been added.
  Router& router() {
    if (router_) return *router_;
    std::vector<NodeAddress> addresses;
    for (const auto& fake : fakes_) addresses.push_back({fake->address()});
    nodes_ = std::make_unique<Membership>(addresses, MembershipOptions(), Clock::Real());
    nodes_->Poll();
    router_ = std::make_unique<Router>(*nodes_, *encoder_, options_, Clock::Real());
    return *router_;
  }

  absl::StatusOr<GenerateOutcome> Generate(const GenerateInput& input) {
    return router().Generate(scope_, input, answer_);
  }

  // Which nodes may get requests.
  std::vector<bool> Usable() const {
    std::vector<bool> usable;
    for (const MemberSnapshot& member : nodes_->Snapshot()) usable.push_back(member.usable);
    return usable;
  }

  static GenerateInput Ids(std::vector<int32_t> ids) {
    GenerateInput input;
    input.prompt = std::move(ids);
    return input;
  }
  static GenerateInput Text(std::string text) {
    GenerateInput input;
    input.prompt = std::move(text);
    return input;
  }

  RouterOptions options_;
  std::unique_ptr<PromptEncoder> encoder_ = TestEncoder();
  std::vector<std::unique_ptr<FakeNode>> fakes_;
  std::unique_ptr<Membership> nodes_;
  std::unique_ptr<Router> router_;
  CallScope scope_{CallScope::DeadlineAfter(60)};
  Collector answer_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_ROUTER_ROUTER_FIXTURE_H_
