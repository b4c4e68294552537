#include "runtime/cluster/local_cluster.h"

#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "runtime/base/status.h"

namespace headway {
namespace {

std::vector<std::string> NodeArguments(const LocalCluster::Node& node,
                                       const LocalClusterOptions& options) {
  std::vector<std::string> arguments = {"node",
                                        "--role",
                                        NodeRoleName(node.role),
                                        "--name",
                                        node.name,
                                        "--tp",
                                        absl::StrCat(node.degree),
                                        "--model",
                                        options.model,
                                        "--listen",
                                        "127.0.0.1:0"};
  arguments.insert(arguments.end(), options.node_flags.begin(), options.node_flags.end());
  return arguments;
}

std::vector<std::string> RouterArguments(const std::vector<LocalCluster::Node>& nodes,
                                         const LocalClusterOptions& options) {
  std::vector<std::string> arguments = {"router", "--model", options.model, "--listen",
                                        options.listen};
  std::map<NodeRole, std::vector<std::string>> addresses;
  for (const LocalCluster::Node& node : nodes) addresses[node.role].push_back(node.address);
  for (const auto& [role, of_role] : addresses) {
    arguments.push_back(absl::StrCat("--", NodeRoleName(role)));
    arguments.push_back(absl::StrJoin(of_role, ","));
  }
  return arguments;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(
    const LocalClusterOptions& options) {
  const absl::Time deadline = absl::Now() + options.start_timeout;
  std::unique_ptr<LocalCluster> cluster(new LocalCluster);
  HEADWAY_ASSIGN_OR_RETURN(cluster->launcher_, Launcher::Create(options.launcher));
  Launcher& launcher = *cluster->launcher_;

  // Nodes load at the same time; their indices with the launcher are those of nodes_.
  std::map<NodeRole, int> count;
  for (const NodeGroup& group : options.topology.groups) {
    for (int i = 0; i < group.count; ++i) {
      Node node{.name = absl::StrCat(NodeRoleName(group.role), "-", count[group.role]++),
                .role = group.role,
                .degree = group.degree,
                .address = ""};
      HEADWAY_RETURN_IF_ERROR(
          launcher.Start({.name = node.name, .args = NodeArguments(node, options)}).status());
      cluster->nodes_.push_back(std::move(node));
    }
  }
  for (size_t i = 0; i < cluster->nodes_.size(); ++i) {
    HEADWAY_ASSIGN_OR_RETURN(cluster->nodes_[i].address,
                             launcher.WaitReady(static_cast<int>(i), deadline - absl::Now()));
  }
  HEADWAY_ASSIGN_OR_RETURN(
      cluster->router_,
      launcher.Start({.name = "router", .args = RouterArguments(cluster->nodes_, options)}));
  HEADWAY_ASSIGN_OR_RETURN(cluster->router_address_,
                           launcher.WaitReady(cluster->router_, deadline - absl::Now()));
  return cluster;
}

LocalCluster::~LocalCluster() { Stop(); }

void LocalCluster::Stop() {
  if (launcher_ == nullptr) return;
  if (router_ >= 0) {
    const int router[] = {router_};
    launcher_->Stop(router);
  }
  launcher_->StopAll();
}

}  // namespace headway
