#include "runtime/cluster/local_cluster.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

namespace headway {
namespace {

std::vector<std::string> NodeArguments(const LocalCluster::Node& node,
                                       const LocalClusterOptions& options) {
  std::vector<std::string> arguments = {
      "node",       "--role", NodeRoleName(node.role),   "--name",
      node.name,    "--tp",   absl::StrCat(node.degree), "--model",
      options.model};
  arguments.insert(arguments.end(), options.node_flags.begin(), options.node_flags.end());
  return arguments;
}

std::vector<std::string> RouterArguments(const std::vector<LocalCluster::Node>& nodes,
                                         const LocalClusterOptions& options) {
  std::vector<std::string> arguments = {"router", "--model", options.model};
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
  cluster->options_ = options;
  HEADWAY_ASSIGN_OR_RETURN(cluster->launcher_, Launcher::Create(options.launcher));

  // Nodes load at the same time.
  std::map<NodeRole, int> count;
  for (const NodeGroup& group : options.topology.groups) {
    for (int i = 0; i < group.count; ++i) {
      Node node{.name = absl::StrCat(NodeRoleName(group.role), "-", count[group.role]++),
                .role = group.role,
                .degree = group.degree,
                .address = ""};
      Part& part = cluster->parts_.emplace_back(Part{
          .name = node.name, .arguments = NodeArguments(node, options), .listen = "127.0.0.1:0"});
      HEADWAY_RETURN_IF_ERROR(cluster->StartPart(part));
      cluster->nodes_.push_back(std::move(node));
    }
  }
  for (size_t i = 0; i < cluster->nodes_.size(); ++i) {
    Part& part = cluster->parts_[i];
    HEADWAY_ASSIGN_OR_RETURN(part.listen, cluster->WaitPart(part, deadline));
    cluster->nodes_[i].address = part.listen;
  }
  Part& router =
      cluster->parts_.emplace_back(Part{.name = "router",
                                        .arguments = RouterArguments(cluster->nodes_, options),
                                        .listen = options.listen});
  HEADWAY_RETURN_IF_ERROR(cluster->StartPart(router));
  HEADWAY_ASSIGN_OR_RETURN(cluster->router_address_, cluster->WaitPart(router, deadline));
  // Another may have been asked for: 0.0.0.0:7000 is reached as 127.0.0.1:7000.
  if (options.listen.ends_with(":0")) router.listen = cluster->router_address_;
  return cluster;
}

absl::Status LocalCluster::StartPart(Part& part) {
  std::vector<std::string> arguments = part.arguments;
  arguments.insert(arguments.begin() + 1, {"--listen", part.listen});
  HEADWAY_ASSIGN_OR_RETURN(part.child,
                           launcher_->Start({.name = part.name, .args = std::move(arguments)}));
  return absl::OkStatus();
}

absl::StatusOr<std::string> LocalCluster::WaitPart(const Part& part, absl::Time deadline) {
  return launcher_->WaitReady(part.child, deadline - absl::Now());
}

absl::Status LocalCluster::Restart(Part& part, const absl::Status& why) {
  const absl::Time now = absl::Now();
  std::erase_if(part.starts,
                [&](absl::Time start) { return start < now - options_.restart_window; });
  if (static_cast<int>(part.starts.size()) >= options_.max_restarts) return why;
  part.starts.push_back(now);
  LogWarning(absl::StrCat(std::string(why.message()), "; it is started again"));
  return StartPart(part);
}

absl::Status LocalCluster::Mend() {
  const absl::Time deadline = absl::Now() + options_.start_timeout;
  std::vector<Part*> starting;
  while (true) {
    for (const Launcher::Ended& ended : launcher_->TakeFailures()) {
      const auto part = std::find_if(parts_.begin(), parts_.end(),
                                     [&](const Part& part) { return part.child == ended.child; });
      // One that has been replaced already is nobody's.
      if (part == parts_.end()) continue;
      HEADWAY_RETURN_IF_ERROR(Restart(*part, ended.why));
      std::erase(starting, &*part);
      starting.push_back(&*part);
    }
    if (starting.empty()) return absl::OkStatus();
    const absl::StatusOr<std::string> ready = WaitPart(*starting.front(), deadline);
    if (ready.ok()) {
      LogInfo(absl::StrCat(starting.front()->name, " serves again on ", *ready));
      starting.erase(starting.begin());
    } else if (launcher_->failure().ok()) {
      return ready.status();  // asked to stop, or out of time
    }
  }
}

LocalCluster::~LocalCluster() { Stop(); }

void LocalCluster::Stop() {
  if (launcher_ == nullptr) return;
  if (!parts_.empty() && parts_.back().name == "router") {
    const int router[] = {parts_.back().child};
    if (router[0] >= 0) launcher_->Stop(router);
  }
  launcher_->StopAll();
}

}  // namespace headway
