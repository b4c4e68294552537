#ifndef HEADWAY_RUNTIME_NODE_RANK_HOST_H_
#define HEADWAY_RUNTIME_NODE_RANK_HOST_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/clock.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/communicator.h"
#include "runtime/engine/rank_engine.h"
#include "runtime/node/rank_worker.h"
#include "runtime/transfer/transport.h"

namespace headway {

// One rank of a node, put together: engine, transport, worker. The same for the leader and for the
// others, for processes and for threads.
class RankHost {
 public:
  // Loads the rank's slice; waits for no other rank. `transport` may be null: a node that neither
  // sends nor receives KV. References outlive the host.
  static absl::StatusOr<std::unique_ptr<RankHost>> Create(
      const Checkpoint& checkpoint, const EngineOptions& options, Communicator& comm,
      std::unique_ptr<Transport> transport, const Clock& clock,
      std::function<void(int, int)> progress = {});

  // Meets the other ranks and exchanges transport addresses. Every rank calls it once, when all
  // have loaded: the communicator's patience is for steps, not for the differences of loading.
  absl::Status Join();

  RankEngine& engine() { return *engine_; }
  RankWorker& worker() { return *worker_; }
  // Of every rank; complete on the leader, after Join.
  const std::vector<std::string>& addresses() const { return addresses_; }

 private:
  RankHost() = default;
  // The worker's ends of the transfers use the transport and the engine's cache: it goes first.
  std::unique_ptr<RankEngine> engine_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<RankWorker> worker_;
  std::vector<std::string> addresses_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_NODE_RANK_HOST_H_
