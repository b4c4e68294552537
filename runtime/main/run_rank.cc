// `headway rank`: one of a node's other ranks. Follows its leader until told to stop.
#include <unistd.h>

#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/cluster/ready_line.h"
#include "runtime/comm/shm_communicator.h"
#include "runtime/main/node_setup.h"
#include "runtime/main/rank_options.h"
#include "runtime/main/stop_signal.h"
#include "runtime/node/rank_host.h"

namespace headway {

absl::Status RunRank(const RankMainOptions& options) {
  // SIGTERM and ctrl-C are the leader's affair: it lets running streams end first.
  StopSignal ignored;
  SetLogName(options.name);
  HEADWAY_ASSIGN_OR_RETURN(const NodeRole role, ParseNodeRole(options.role));
  HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                           Checkpoint::Open(options.model.model));
  HEADWAY_ASSIGN_OR_RETURN(
      const NodeSetup setup,
      SettleNode(*checkpoint, options.model, options.tp,
                 {.blocks = options.kv_blocks, .max_positions = options.max_positions}));
  HEADWAY_ASSIGN_OR_RETURN(
      std::unique_ptr<Communicator> comm,
      NewShmCommunicator({.rank = options.rank, .size = options.tp, .fd = options.comm_fd}));
  HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                           NewKvTransport(role, options.kv_devices));
  HEADWAY_ASSIGN_OR_RETURN(
      std::unique_ptr<RankHost> host,
      RankHost::Create(*checkpoint, setup.Engine(), *comm, std::move(transport), Clock::Real()));
  HEADWAY_RETURN_IF_ERROR(WriteReadyLine(options.ready_fd, ""));
  HEADWAY_RETURN_IF_ERROR(host->Join());
  return host->worker().Follow();
}

}  // namespace headway
