#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/cluster/local_cluster.h"
#include "runtime/main/interrupt.h"
#include "runtime/main/model_flags.h"
#include "runtime/main/node_flags.h"
#include "runtime/main/output.h"
#include "runtime/main/topology_flag.h"
#include "runtime/main/verb.h"

namespace headway {
namespace {

struct Options {
  Topology topology;
  NodeMainOptions node;  // what every node is told
  std::string listen = LocalClusterOptions().listen;
  int restarts = LocalClusterOptions().max_restarts;
  bool quiet = false;
  bool stop_on_eof = false;
  bool json = false;
};

// An error when nobody can learn them.
absl::Status PrintAddresses(const LocalCluster& cluster, bool json) {
  if (json) {
    nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
    for (const LocalCluster::Node& node : cluster.nodes()) {
      nodes.push_back({{"name", node.name},
                       {"role", NodeRoleName(node.role)},
                       {"tp", node.degree},
                       {"address", node.address}});
    }
    const nlohmann::ordered_json line = {{"router", cluster.router_address()},
                                         {"nodes", std::move(nodes)}};
    std::printf("%s\n", line.dump().c_str());
  } else {
    for (const LocalCluster::Node& node : cluster.nodes()) {
      std::printf("%-12s %s  (%d %s)\n", node.name.c_str(), node.address.c_str(), node.degree,
                  node.degree == 1 ? "rank" : "ranks");
    }
    std::printf("%-12s %s\nReady. Ctrl-C stops it all.\n", "router",
                cluster.router_address().c_str());
  }
  return FinishOutput();
}

// Reads and drops what is there. False at the end of the stream.
bool ReadMore(int fd) {
  char bytes[256];
  return read(fd, bytes, sizeof(bytes)) > 0;
}

// Returns when asked to stop. Starts again what ends by itself; an error when that does not help.
absl::Status WaitForTheEnd(LocalCluster& cluster, Interrupt& interrupt, bool stop_on_eof) {
  while (true) {
    pollfd fds[] = {{cluster.failure_fd(), POLLIN, 0},
                    {interrupt.fd(), POLLIN, 0},
                    {stop_on_eof ? STDIN_FILENO : -1, POLLIN, 0}};
    if (poll(fds, 3, /*timeout=*/-1) < 0) continue;  // EINTR alone is possible
    if (fds[1].revents != 0) {
      interrupt.Forgive();
      return absl::OkStatus();
    }
    if (fds[0].revents != 0) {
      const absl::Status mended = cluster.Mend();
      // The interrupt is looked at first when it was the reason.
      if (!mended.ok() && !absl::IsCancelled(mended)) return mended;
    }
    if (fds[2].revents != 0 && !ReadMore(STDIN_FILENO)) return absl::OkStatus();
  }
}

absl::Status Run(const Options& options) {
  SetLogName("up");
  Interrupt interrupt("asked to stop: ends the router, then the nodes; again ends all at once");
  LocalClusterOptions cluster_options{.topology = options.topology,
                                      .model = options.node.model.model,
                                      .node_flags = ModelFlagsOf(options.node.model),
                                      .listen = options.listen};
  const std::vector<std::string> kv_flags = KvFlagsOf(options.node);
  cluster_options.node_flags.insert(cluster_options.node_flags.end(), kv_flags.begin(),
                                    kv_flags.end());
  cluster_options.max_restarts = options.restarts;
  cluster_options.launcher.forward_output = !options.quiet;
  cluster_options.launcher.stop_fd = interrupt.fd();
  HEADWAY_ASSIGN_OR_RETURN(const std::unique_ptr<LocalCluster> cluster,
                           LocalCluster::Start(cluster_options));
  absl::Status status = PrintAddresses(*cluster, options.json);
  if (status.ok()) status = WaitForTheEnd(*cluster, interrupt, options.stop_on_eof);
  cluster->Stop();
  return status;
}

VerbRunner Declare(Flags& flags) {
  const auto options = std::make_shared<Options>();
  AddTopologyFlag(flags, &options->topology);
  flags.AddAddress(
      "--listen", &options->listen, /*lowest_port=*/0,
      {.value = "HOST:PORT", .help = "where the router listens; port 0: any free one"});
  flags.Add("--restarts", &options->restarts, 0, 1'000'000,
            {.value = "N",
             .help = "how often within a minute a process that ends by itself is started again, at "
                     "the address it had, before all are stopped; 0: all are stopped at once"});
  flags.Section("Model and numerics, of every node");
  AddModelFlags(flags, /*model_required=*/true, &options->node.model);
  flags.Section("KV cache, of every node");
  AddKvFlags(flags, &options->node);
  flags.Section("Output");
  flags.Switch("--quiet", &options->quiet, "leave out the log lines of the nodes and the router");
  flags.Switch("--json", &options->json, "the addresses as one JSON object");
  flags.Switch("--stop-on-eof", &options->stop_on_eof,
               "also stop when standard input ends, as it does when the script that holds it dies");
  return [options] { return Run(*options); };
}

}  // namespace

Verb UpVerb() {
  return {
      {.verb = "up",
       .summary = "starts a whole cluster on this machine and stops it on ctrl-C",
       .description =
           "Starts the nodes of a topology and a router in front of them, each a process of its "
           "own, "
           "prints their addresses once they serve, and waits. Ctrl-C or SIGTERM stops the router, "
           "then the nodes, at any time; a second one ends all at once. A process that ends by "
           "itself "
           "is started again; when that happens too often, all are stopped, and the exit status is "
           "1.",
       .example =
           "headway up --topology 1xP:tp2,1xD:tp2 --model model.gguf --listen 127.0.0.1:7000"},
      &Declare};
}

}  // namespace headway
