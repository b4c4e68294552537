#ifndef HEADWAY_RUNTIME_MAIN_CLIENT_TARGET_H_
#define HEADWAY_RUNTIME_MAIN_CLIENT_TARGET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/cluster/local_cluster.h"
#include "runtime/main/flags.h"
#include "runtime/main/interrupt.h"
#include "runtime/main/model_options.h"
#include "runtime/server/client.h"

namespace headway {

struct ClientTargetOptions {
  std::string address;  // of a router; empty: a private cluster
  Topology topology;
  ModelOptions model;
};

// Adds --address, --model, --topology, the numerics and --threads; exactly one of the first two
// must be given, and the others belong to --model.
void AddClientTargetFlags(Flags& flags, ClientTargetOptions* options);

// Whom a client verb talks to: a router that runs already, or a cluster of its own that ends with
// this object.
class ClientTarget {
 public:
  // Connects, after starting the cluster where there is none. Cancelled, with nothing left, when
  // `interrupt` asks to stop meanwhile; it outlives this object.
  static absl::StatusOr<std::unique_ptr<ClientTarget>> Open(const ClientTargetOptions& options,
                                                            Interrupt& interrupt);
  Client& client() { return *client_; }

 private:
  ClientTarget() = default;
  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<Client> client_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_CLIENT_TARGET_H_
