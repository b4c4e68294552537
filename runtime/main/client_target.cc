#include "runtime/main/client_target.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/main/model_flags.h"
#include "runtime/main/topology_flag.h"

namespace headway {
namespace {

constexpr double kConnectSeconds = 10;

}  // namespace

void AddClientTargetFlags(Flags& flags, ClientTargetOptions* options) {
  flags.Section("Whom to ask: a running router, or a private cluster for this call");
  flags.AddAddress("--address", &options->address, /*lowest_port=*/1,
                   {.value = "HOST:PORT", .help = "of a router, as `headway up` prints it"});
  AddModelFlags(flags, /*model_required=*/false, &options->model);
  AddTopologyFlag(flags, &options->topology);
  flags.Check([&flags]() -> std::optional<std::string> {
    if (flags.Given("--address") && flags.Given("--model")) {
      return "--address and --model are both given; give --address of a router, or --model to "
             "start a private cluster";
    }
    if (!flags.Given("--address") && !flags.Given("--model")) {
      return "give --address of a router, or --model to start a private cluster";
    }
    for (const char* name : {"--topology", "--kv-dtype", "--activations", "--threads"}) {
      if (flags.Given("--address") && flags.Given(name)) {
        return absl::StrCat(name, " goes with --model; a running cluster has been told its own");
      }
    }
    return std::nullopt;
  });
}

absl::StatusOr<std::unique_ptr<ClientTarget>> ClientTarget::Open(const ClientTargetOptions& options,
                                                                 Interrupt& interrupt) {
  std::unique_ptr<ClientTarget> target(new ClientTarget);
  std::string address = options.address;
  if (address.empty()) {
    LocalClusterOptions cluster{.topology = options.topology,
                                .model = options.model.model,
                                .node_flags = ModelFlagsOf(options.model)};
    cluster.launcher.stop_fd = interrupt.fd();
    HEADWAY_ASSIGN_OR_RETURN(target->cluster_, LocalCluster::Start(cluster));
    address = target->cluster_->router_address();
  }
  CallScope scope(CallScope::DeadlineAfter(kConnectSeconds));
  const Interrupt::Cancels cancels(interrupt, scope);
  HEADWAY_ASSIGN_OR_RETURN(target->client_, Client::Connect(scope, address, kConnectSeconds));
  return target;
}

}  // namespace headway
