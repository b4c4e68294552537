#include "runtime/node/rank_worker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/kv/block_pool.h"
#include "runtime/model/shard_plan.h"

namespace headway {
namespace {

// A prompt's chunk fits into a frame of this size; what a command has beyond the frame follows in a
// second exchange.
constexpr size_t kLeastFrameBytes = 4096;
// No command is that long; a count above it is not one.
constexpr uint64_t kMostCommandBytes = uint64_t{1} << 30;

CommandLimits LimitsOf(const RankEngine& engine) {
  const int blocks = engine.kv().num_blocks();
  // A sequence has at least one block and, to compute, one row.
  return {.rows = engine.limits().max_rows,
          .sequences = std::min(engine.limits().max_rows, blocks),
          .blocks = blocks};
}

// The longest step of sequences that all decode: each wants a row of logits.
RankCommand LargestDecodeStep(const RankEngine& engine) {
  RankCommand command;
  command.spans.resize(engine.limits().max_logit_rows);
  command.tokens.resize(engine.limits().max_logit_rows);
  return command;
}

template <class Report>
void SetStatus(const absl::Status& status, Report& report) {
  report.code = static_cast<int32_t>(status.code());
  const size_t length = std::min(status.message().size(), sizeof(report.message) - 1);
  status.message().copy(report.message, length);
}

}  // namespace

// Hands finished layers to the sender, and to the leader's own observer.
class RankWorker::PushObserver : public LayerObserver {
 public:
  PushObserver(const RankCommand& command, KvSender* sender, LayerObserver* next)
      : command_(command), sender_(sender), next_(next) {}

  void OnLayer(int layer, const float* residual, int stride, int rows) override {
    for (const CommandSpan& span : command_.spans) {
      if (span.push_to != 0 && span.push_begin < span.push_end) {
        sender_->OnLayerReady(span.push_to, layer, span.push_begin, span.push_end);
      }
    }
    if (next_ != nullptr) next_->OnLayer(layer, residual, stride, rows);
  }

 private:
  const RankCommand& command_;
  KvSender* sender_;
  LayerObserver* next_;
};

RankWorker::RankWorker(RankEngine& engine, Communicator& comm, Transport* transport,
                       const Clock& clock)
    : engine_(engine),
      comm_(comm),
      clock_(clock),
      transport_(transport),
      limits_(LimitsOf(engine)),
      tables_(limits_.sequences,
              std::min(limits_.blocks, BlocksFor(engine.limits().max_positions))),
      received_(LargestStep(limits_)),
      report_sizes_(comm.size()) {
  batch_.reserve(received_.spans.size());
  message_.resize(sizeof(uint64_t));
  EncodeCommand(LargestDecodeStep(engine), message_);
  frame_bytes_ = std::max(message_.size(), kLeastFrameBytes);
  EncodeCommand(received_, message_);  // so that it never grows
  received_.Clear();
  if (transport_ != nullptr) {
    const std::string name = absl::StrCat("rank-", comm_.rank());
    sender_ = KvSender::Create(*transport_, engine_.kv().layers(), clock_, name);
    receiver_ =
        KvReceiver::Create(*transport_, engine_.kv().layers(),
                           {.name = name, .kv_heads = engine_.plan().ranks[comm_.rank()].kv_heads});
  }
}

absl::StatusOr<std::vector<std::string>> RankWorker::ExchangeAddresses() {
  const std::string mine = transport_ == nullptr ? "" : transport_->address();
  const int64_t my_size = static_cast<int64_t>(mine.size());
  std::vector<int64_t> sizes(comm_.size());
  const std::vector<int64_t> ones(comm_.size(), sizeof(int64_t));
  HEADWAY_RETURN_IF_ERROR(comm_.Gather(-1, std::as_bytes(std::span(&my_size, 1)), ones,
                                       reinterpret_cast<std::byte*>(sizes.data())));
  int64_t total = 0;
  for (int64_t size : sizes) total += size;
  std::vector<std::byte> all(total);
  HEADWAY_RETURN_IF_ERROR(comm_.Gather(0, std::as_bytes(std::span(mine)), sizes, all.data()));
  std::vector<std::string> addresses;
  const char* at = reinterpret_cast<const char*>(all.data());
  for (int64_t size : sizes) {
    addresses.emplace_back(at, size);
    at += size;
  }
  return addresses;
}

absl::Status RankWorker::Follow() {
  for (;;) {
    absl::Status status = Receive();
    if (status.ok() && received_.stop) return status;
    if (status.ok()) status = Execute(received_, nullptr);
    if (!status.ok()) {
      // The others would wait for this rank.
      comm_.Abort(absl::StrCat("rank ", comm_.rank(), ": ", status.message()));
      return status;
    }
  }
}

absl::Status RankWorker::Lead(const RankCommand& command, LayerObserver* observer) {
  absl::Status status = Send(command);
  if (status.ok() && command.stop) return status;
  if (status.ok()) status = Execute(command, observer);
  if (!status.ok()) comm_.Abort(absl::StrCat("leader: ", status.message()));
  return status;
}

absl::Status RankWorker::Send(const RankCommand& command) {
  if (comm_.size() == 1) return absl::OkStatus();
  message_.resize(sizeof(uint64_t));
  EncodeCommand(command, message_);
  const uint64_t size = message_.size() - sizeof(size);
  if (size > kMostCommandBytes) {
    return absl::InternalError(
        absl::StrCat("a rank command of ", size, " bytes; at most ", kMostCommandBytes));
  }
  std::memcpy(message_.data(), &size, sizeof(size));
  if (message_.size() < frame_bytes_) message_.resize(frame_bytes_);
  HEADWAY_RETURN_IF_ERROR(comm_.Broadcast(0, std::span(message_).first(frame_bytes_)));
  if (message_.size() == frame_bytes_) return absl::OkStatus();
  return comm_.Broadcast(0, std::span(message_).subspan(frame_bytes_));
}

// Into received_.
absl::Status RankWorker::Receive() {
  message_.resize(frame_bytes_);
  HEADWAY_RETURN_IF_ERROR(comm_.Broadcast(0, message_));
  uint64_t size;
  std::memcpy(&size, message_.data(), sizeof(size));
  if (size > kMostCommandBytes) {
    return absl::InternalError(
        absl::StrCat("a rank command of ", size, " bytes; at most ", kMostCommandBytes));
  }
  if (const size_t whole = sizeof(size) + size; whole > frame_bytes_) {
    message_.resize(whole);
    HEADWAY_RETURN_IF_ERROR(comm_.Broadcast(0, std::span(message_).subspan(frame_bytes_)));
  }
  return DecodeCommand(std::span(message_).subspan(sizeof(size), size), received_);
}

absl::Status RankWorker::ExecuteTransfers(const RankCommand& command) {
  for (uint64_t id : command.closes) receiver_->Close(id);
  for (uint64_t id : command.end_sends) sender_->End(id);
  // A transfer that cannot begin is the end of its sequence, which the next look at it tells, and
  // not of the node.
  for (const ReceiveTask& open : command.opens) {
    if (absl::Status status = receiver_->Open(open); !status.ok())
      LogError(std::string(status.message()));
  }
  for (const BeginSend& send : command.begin_sends) {
    HEADWAY_ASSIGN_OR_RETURN(ShardPlan target, MakeShardPlan(engine_.config(), send.target_degree));
    SendTask task = {.reservation_id = send.reservation_id,
                     .epoch = send.epoch,
                     .peer_addresses = send.peer_addresses,
                     .block_table = send.block_table,
                     .first_block = send.first_block,
                     .deadline_nanos = clock_.NowNanos() + send.lease_nanos};
    for (const HeadRoute& route : PlanTransfer(engine_.plan(), target)) {
      if (route.source_rank == comm_.rank()) task.routes.push_back(route);
    }
    // What the prompt leaves of its last block would else be an earlier sequence's, and travel.
    if (!send.block_table.empty()) engine_.ClearBlock(send.block_table.back());
    if (absl::Status status = sender_->Begin(std::move(task)); !status.ok()) {
      LogError(std::string(status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status RankWorker::Execute(const RankCommand& command, LayerObserver* observer) {
  HEADWAY_RETURN_IF_ERROR(ExecuteTransfers(command));
  HEADWAY_RETURN_IF_ERROR(tables_.Apply(command));
  if (!command.spans.empty()) HEADWAY_RETURN_IF_ERROR(Compute(command, observer));
  // The leader tells a peer of a reservation when this command is done; every rank must know it by
  // then.
  if (!command.opens.empty()) HEADWAY_RETURN_IF_ERROR(comm_.Barrier());
  return Report(command);
}

absl::Status RankWorker::Compute(const RankCommand& command, LayerObserver* observer) {
  batch_.clear();
  std::span<const int32_t> tokens = command.tokens;
  for (const CommandSpan& span : command.spans) {
    HEADWAY_ASSIGN_OR_RETURN(const std::span<const int32_t> table, tables_.Table(span.slot));
    batch_.push_back({.tokens = tokens.first(span.count),
                      .first_position = span.first_position,
                      .block_table = table,
                      .logits = span.logits});
    tokens = tokens.subspan(span.count);
  }
  PushObserver push(command, sender_.get(), observer);
  return engine_.Run(batch_, &push);
}

absl::Status RankWorker::Report(const RankCommand& command) {
  my_receives_.clear();
  for (const uint64_t id : command.poll_receives) {
    const ReceiveState state = receiver_->Poll(id);
    ReceiveReport& report = my_receives_.emplace_back();
    report.received = state.received;
    report.bytes = state.bytes;
    report.refused = state.refused;
    SetStatus(state.status, report);
  }
  my_sends_.clear();
  for (const uint64_t id : command.poll_sends) {
    sender_->Poll(id, polled_);
    SendReport& report = my_sends_.emplace_back();
    report.done = polled_.done ? 1 : 0;
    report.bytes = polled_.bytes;
    std::copy(polled_.parts.begin(), polled_.parts.end(), report.parts);
    SetStatus(polled_.status, report);
  }
  HEADWAY_RETURN_IF_ERROR(GatherReports(my_receives_, receives_by_rank_, reports_.receives));
  return GatherReports(my_sends_, sends_by_rank_, reports_.sends);
}

template <class Item>
absl::Status RankWorker::GatherReports(const std::vector<Item>& mine, std::vector<Item>& by_rank,
                                       std::vector<Item>& by_item) {
  by_item.clear();
  if (mine.empty()) return absl::OkStatus();
  const bool leads = comm_.rank() == 0;
  by_rank.resize(leads ? mine.size() * comm_.size() : 0);
  std::fill(report_sizes_.begin(), report_sizes_.end(),
            static_cast<int64_t>(mine.size() * sizeof(Item)));
  HEADWAY_RETURN_IF_ERROR(comm_.Gather(0, std::as_bytes(std::span(mine)), report_sizes_,
                                       reinterpret_cast<std::byte*>(by_rank.data())));
  if (!leads) return absl::OkStatus();
  for (size_t i = 0; i < mine.size(); ++i) {
    for (int r = 0; r < comm_.size(); ++r) by_item.push_back(by_rank[r * mine.size() + i]);
  }
  return absl::OkStatus();
}

}  // namespace headway
