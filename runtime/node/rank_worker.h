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
#include "runtime/node/sequence_tables.h"
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

  // Leader: sends `command` to the other ranks, executes it here, and collects reports. `observer`
  // (may be null) sees the leader's own layers. Logits of the step are the engine's afterwards. An
  // error breaks the group: every rank leaves. A step of sequences that decode is one broadcast,
  // and allocates nothing on any rank.
  absl::Status Lead(const RankCommand& command, LayerObserver* observer);
  struct Reports {
    std::vector<ReceiveReport> receives;  // [poll_receives][rank]
    std::vector<SendReport> sends;        // [poll_sends][rank]
  };
  // Of the last Lead.
  const Reports& reports() const { return reports_; }

  // What the leader may put into a command; the same on every rank.
  const CommandLimits& limits() const { return limits_; }

  // Transfers that are open on this rank, either way. Thread-safe.
  int open_transfers() const {
    return transport_ == nullptr ? 0 : sender_->open() + receiver_->open();
  }

  // Transport address of every rank, for reservations. All ranks call it once, at start, before any
  // command; the leader's result is complete.
  absl::StatusOr<std::vector<std::string>> ExchangeAddresses();

 private:
  class PushObserver;
  absl::Status Send(const RankCommand& command);
  absl::Status Receive();
  absl::Status Execute(const RankCommand& command, LayerObserver* observer);
  absl::Status ExecuteTransfers(const RankCommand& command);
  absl::Status Compute(const RankCommand& command, LayerObserver* observer);
  absl::Status Report(const RankCommand& command);
  template <class Item>
  absl::Status GatherReports(const std::vector<Item>& mine, std::vector<Item>& by_rank,
                             std::vector<Item>& by_item);

  RankEngine& engine_;
  Communicator& comm_;
  const Clock& clock_;
  std::unique_ptr<KvSender> sender_;
  std::unique_ptr<KvReceiver> receiver_;
  Transport* transport_;
  const CommandLimits limits_;
  SequenceTables tables_;
  // A command on its way: its bytes' count, then they. `frame_bytes_` go in the first broadcast,
  // the rest, if any, in a second one.
  std::vector<std::byte> message_;
  size_t frame_bytes_;
  RankCommand received_;  // of the ranks that follow
  std::vector<BatchSpan> batch_;
  // Of polled transfers: this rank's, [rank][poll] at the leader, and what it makes of them.
  std::vector<ReceiveReport> my_receives_, receives_by_rank_;
  std::vector<SendReport> my_sends_, sends_by_rank_;
  SendState polled_;
  std::vector<int64_t> report_sizes_;
  Reports reports_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_NODE_RANK_WORKER_H_
