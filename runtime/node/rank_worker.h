#ifndef HEADWAY_RUNTIME_NODE_RANK_WORKER_H_
#define HEADWAY_RUNTIME_NODE_RANK_WORKER_H_

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/clock.h"
#include "runtime/comm/communicator.h"
#include "runtime/engine/rank_engine.h"
#include "runtime/node/rank_command.h"
#include "runtime/transfer/kv_receiver.h"
#include "runtime/transfer/kv_sender.h"
#include "runtime/transfer/transport.h"

namespace headway {

// One rank of a node: executes the leader's commands on its engine and its two ends of KV
// transfers. The leader uses the same class through Lead; other ranks follow in Follow.
//
// Thread-compatible: one thread of the rank calls it.
class RankWorker {
 public:
  // Everything passed must outlive the worker. `transport` is null on a node that never transfers
  // (mixed).
  RankWorker(RankEngine& engine, Communicator& comm, Transport* transport, const Clock& clock);

  // Ranks but the leader: executes commands until one says stop (OK) or the group breaks (the
  // reason).
  absl::Status Follow();

  struct Reports {
    std::vector<ReceiveReport> receives;  // [poll_receives][rank]
    std::vector<SendReport> sends;        // [poll_sends][rank]
  };
  // Leader: sends `command` to the other ranks, executes it here, and collects reports. `observer`
  // (may be null) sees the leader's own layers. Logits of the step are the engine's afterwards. An
  // error breaks the group: every rank leaves.
  absl::StatusOr<Reports> Lead(const RankCommand& command, LayerObserver* observer);

  // Transport address of every rank, for reservations. All ranks call it once, at start, before any
  // command; the leader's result is complete.
  absl::StatusOr<std::vector<std::string>> ExchangeAddresses();

 private:
  class PushObserver;
  absl::Status Execute(const RankCommand& command, LayerObserver* observer, Reports* reports);
  absl::Status ExecuteTransfers(const RankCommand& command);
  absl::Status Report(const RankCommand& command, Reports* reports);

  RankEngine& engine_;
  Communicator& comm_;
  const Clock& clock_;
  std::unique_ptr<KvSender> sender_;
  std::unique_ptr<KvReceiver> receiver_;
  Transport* transport_;
  std::vector<std::byte> encoded_;
  std::vector<BatchSpan> batch_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_NODE_RANK_WORKER_H_
