#include "runtime/main/verify_cluster.h"

#include <utility>

#include "proto/headway/v1/inference.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/call_scope.h"
#include "runtime/server/client.h"

namespace headway {
namespace {

constexpr absl::Duration kStartTimeout = absl::Minutes(5);
constexpr double kConnectSeconds = 60;
constexpr double kRowSeconds = 600;

v1::GenerateRequest ToProto(const VerifyCase& request) {
  v1::GenerateRequest proto;
  proto.mutable_prompt()->mutable_token_ids()->mutable_ids()->Add(request.prompt.begin(),
                                                                  request.prompt.end());
  v1::GenerateOptions& options = *proto.mutable_options();
  options.set_temperature(request.sampling.temperature);
  options.set_top_k(request.sampling.top_k);
  options.set_top_p(request.sampling.top_p);
  options.set_seed(request.sampling.seed);
  options.set_max_tokens(request.sampling.max_tokens);
  options.set_ignore_eos(request.sampling.ignore_eos);
  options.set_trace(true);
  return proto;
}

}  // namespace

class ClusterRow : public VerifyRow {
 public:
  ClusterRow(std::string name, std::vector<std::string> node_flags, VerifyCluster& cluster)
      : name_(std::move(name)), node_flags_(std::move(node_flags)), cluster_(cluster) {}
  std::string name() const override { return name_; }
  absl::StatusOr<RowResult> Run(const VerifyCase& request) override {
    return cluster_.RunThroughRouter(node_flags_, request);
  }

 private:
  const std::string name_;
  const std::vector<std::string> node_flags_;
  VerifyCluster& cluster_;
};

absl::StatusOr<std::unique_ptr<VerifyCluster>> VerifyCluster::Start(
    const VerifyClusterOptions& options) {
  auto cluster = std::unique_ptr<VerifyCluster>(new VerifyCluster());
  cluster->options_ = options;
  HEADWAY_ASSIGN_OR_RETURN(cluster->launcher_, Launcher::Create({}));
  std::vector<std::pair<int, std::pair<NodeRole, int>>> children;
  for (int degree = 1; degree <= options.max_degree; ++degree) {
    for (NodeRole role : {NodeRole::kMixed, NodeRole::kPrefill, NodeRole::kDecode}) {
      const std::string name = absl::StrCat("verify-", NodeRoleName(role), "-tp", degree);
      // Room for the case, and for the one before it that may still be ending.
      const int blocks = 2 * ((options.max_positions + 15) / 16 + 1);
      std::vector<std::string> args = {"node",
                                       "--role",
                                       NodeRoleName(role),
                                       "--name",
                                       name,
                                       "--tp",
                                       absl::StrCat(degree),
                                       "--model",
                                       options.model,
                                       "--listen",
                                       "127.0.0.1:0",
                                       "--kv-blocks",
                                       absl::StrCat(blocks)};
      args.insert(args.end(), options.node_flags.begin(), options.node_flags.end());
      HEADWAY_ASSIGN_OR_RETURN(const int child,
                               cluster->launcher_->Start({.name = name, .args = std::move(args)}));
      children.push_back({child, {role, degree}});
    }
  }
  for (const auto& [child, key] : children) {
    HEADWAY_ASSIGN_OR_RETURN(cluster->addresses_[key],
                             cluster->launcher_->WaitReady(child, kStartTimeout));
  }
  return cluster;
}

std::vector<std::unique_ptr<VerifyRow>> VerifyCluster::Rows() {
  std::vector<std::unique_ptr<VerifyRow>> rows;
  for (int degree = 1; degree <= options_.max_degree; ++degree) {
    rows.push_back(std::make_unique<ClusterRow>(
        absl::StrCat("mixed node of ", degree,
                     degree == 1 ? " rank, through a router" : " ranks, through a router"),
        std::vector<std::string>{"--mixed", addresses_.at({NodeRole::kMixed, degree})}, *this));
  }
  for (int p = 1; p <= options_.max_degree; ++p) {
    for (int d = 1; d <= options_.max_degree; ++d) {
      rows.push_back(std::make_unique<ClusterRow>(
          absl::StrCat("1xP:tp", p, ",1xD:tp", d),
          std::vector<std::string>{"--prefill", addresses_.at({NodeRole::kPrefill, p}), "--decode",
                                   addresses_.at({NodeRole::kDecode, d})},
          *this));
    }
  }
  return rows;
}

absl::StatusOr<RowResult> VerifyCluster::RunThroughRouter(
    const std::vector<std::string>& node_flags, const VerifyCase& request) {
  std::vector<std::string> args = {"router", "--model", options_.model, "--listen", "127.0.0.1:0"};
  args.insert(args.end(), node_flags.begin(), node_flags.end());
  HEADWAY_ASSIGN_OR_RETURN(const int router,
                           launcher_->Start({.name = "verify-router", .args = std::move(args)}));
  auto run = [&]() -> absl::StatusOr<RowResult> {
    HEADWAY_ASSIGN_OR_RETURN(const std::string address,
                             launcher_->WaitReady(router, kStartTimeout));
    CallScope scope(CallScope::DeadlineAfter(kRowSeconds));
    HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                             Client::Connect(scope, address, kConnectSeconds));
    RowResult result;
    HEADWAY_RETURN_IF_ERROR(
        client
            ->Generate(scope, ToProto(request),
                       [&](const v1::GenerateResponse& response) {
                         for (const v1::OutputToken& token : response.tokens()) {
                           result.tokens.push_back(token.id());
                           for (const v1::PositionTrace& trace : token.trace()) {
                             result.positions.push_back(
                                 {.position = trace.position(),
                                  .layers = {trace.layers().begin(), trace.layers().end()},
                                  .logits = trace.logits()});
                           }
                         }
                         return true;
                       })
            .status());
    return result;
  };
  absl::StatusOr<RowResult> result = run();
  const int stopped[] = {router};
  launcher_->Stop(stopped);
  return result;
}

}  // namespace headway
