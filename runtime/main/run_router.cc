// `headway router`: flags -> tokenizer, nodes, service -> wait -> drain.
#include <poll.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/impl/codegen/service_type.h"
#include "proto/headway/v1/inference.grpc.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/cluster/membership.h"
#include "runtime/cluster/ready_line.h"
#include "runtime/main/router_options.h"
#include "runtime/main/stop_signal.h"
#include "runtime/model/text_config.h"
#include "runtime/router/router.h"
#include "runtime/server/inference_service.h"
#include "runtime/server/server.h"
#include "runtime/text/tokenizer.h"

namespace headway {
namespace {

// Nodes that are started together with the router may still be loading.
constexpr double kNodesSeconds = 60;
// Running streams may end by themselves for this long after SIGTERM.
constexpr double kDrainSeconds = 30;

struct NamedNode {
  NodeRole role;
  std::string address;
};

std::vector<NamedNode> AllNodes(const RouterMainOptions& options) {
  std::vector<NamedNode> nodes;
  for (const std::string& address : options.prefill) nodes.push_back({NodeRole::kPrefill, address});
  for (const std::string& address : options.decode) nodes.push_back({NodeRole::kDecode, address});
  for (const std::string& address : options.mixed) nodes.push_back({NodeRole::kMixed, address});
  return nodes;
}

// Null, with a log line that says why, for a checkpoint whose text cannot be read: it serves token
// ids.
absl::StatusOr<std::unique_ptr<text::Tokenizer>> ReadTokenizer(const Checkpoint& checkpoint) {
  const absl::StatusOr<text::TokenizerSpec> spec = ReadTokenizerSpec(checkpoint);
  if (absl::IsNotFound(spec.status()) || absl::IsUnimplemented(spec.status())) {
    LogWarning(absl::StrCat("serving token ids only: ", spec.status().message()));
    return nullptr;
  }
  HEADWAY_RETURN_IF_ERROR(spec.status());
  return text::Tokenizer::Create(*spec);
}

// Waits until every node has answered; OK at once when asked to stop, which `signal` still tells.
absl::Status WaitForNodes(Membership& members, const StopSignal& signal) {
  pollfd stop{signal.fd(), POLLIN, 0};
  const auto wait = [&stop](double seconds) { poll(&stop, 1, static_cast<int>(seconds * 1000)); };
  const double deadline = Clock::Real().NowSeconds() + kNodesSeconds;
  while (true) {
    const absl::Status status = members.WaitReady(/*seconds=*/0.2, wait);
    if (!absl::IsDeadlineExceeded(status) || stop.revents != 0) {
      return stop.revents != 0 ? absl::OkStatus() : status;
    }
    if (Clock::Real().NowSeconds() > deadline) return status;
  }
}

// Nodes say themselves what they do; a flag that says otherwise is a mistake.
absl::Status CheckRoles(const std::vector<NamedNode>& nodes, const Membership& members) {
  for (const MemberSnapshot& member : members.Snapshot()) {
    const NamedNode& named = nodes[static_cast<size_t>(member.index)];
    if (member.usable && member.role != named.role) {
      return absl::InvalidArgumentError(absl::StrCat("--", NodeRoleName(named.role), " ",
                                                     named.address, ": that is a ",
                                                     NodeRoleName(member.role), " node"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunRouter(const RouterMainOptions& options) {
  const StopSignal signal;
  SetLogName("router");
  std::unique_ptr<text::Tokenizer> tokenizer;
  {
    HEADWAY_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                             Checkpoint::Open(options.model));
    HEADWAY_ASSIGN_OR_RETURN(tokenizer, ReadTokenizer(*checkpoint));
  }
  const PromptEncoder encoder(std::move(tokenizer));

  const std::vector<NamedNode> nodes = AllNodes(options);
  std::vector<std::string> addresses;
  for (const NamedNode& node : nodes) addresses.push_back(node.address);
  auto members = std::make_unique<Membership>(addresses, MembershipOptions(), Clock::Real());
  HEADWAY_RETURN_IF_ERROR(WaitForNodes(*members, signal));
  HEADWAY_RETURN_IF_ERROR(CheckRoles(nodes, *members));

  Router router(*members, encoder, RouterOptions(), Clock::Real());
  const std::unique_ptr<grpc::Service> service =
      NewInferenceService(router, InferenceServiceOptions());
  HEADWAY_ASSIGN_OR_RETURN(
      const std::unique_ptr<Server> server,
      Server::Start(options.listen, {{service.get(), v1::Inference::service_full_name()}}));
  members->Start([&server](bool serving) { server->SetServing(serving); });
  LogInfo(absl::StrCat("serves ", nodes.size(), nodes.size() == 1 ? " node" : " nodes", " on ",
                       server->address()));
  const absl::Status told = WriteReadyLine(options.ready_fd, server->address());
  if (told.ok()) WaitReadable(signal.fd(), /*second=*/-1);
  server->Shutdown(kDrainSeconds);
  // No request is left to use the nodes, and their thread must not speak to a server that is gone.
  members.reset();
  return told;
}

}  // namespace headway
