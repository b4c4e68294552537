#include "runtime/node/rank_worker.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/model/shard_plan.h"

namespace headway {
namespace {

// Small commands travel in one exchange of this size; what is longer follows in a second one.
constexpr size_t kFrameBytes = 4096;
constexpr size_t kInlineBytes = kFrameBytes - sizeof(uint64_t);

template <class Report>
void SetStatus(const absl::Status& status, Report& report) {
  report.code = static_cast<int32_t>(status.code());
  const size_t length = std::min(status.message().size(), sizeof(report.message) - 1);
  std::memcpy(report.message, status.message().data(), length);
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
    : engine_(engine), comm_(comm), clock_(clock), transport_(transport) {
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
    std::array<std::byte, kFrameBytes> frame;
    HEADWAY_RETURN_IF_ERROR(comm_.Broadcast(0, frame));
    uint64_t size;
    std::memcpy(&size, frame.data(), sizeof(size));
    encoded_.resize(size);
    if (size <= kInlineBytes) {
      std::memcpy(encoded_.data(), frame.data() + sizeof(size), size);
    } else {
      HEADWAY_RETURN_IF_ERROR(comm_.Broadcast(0, encoded_));
    }
    HEADWAY_ASSIGN_OR_RETURN(RankCommand command, DecodeCommand(encoded_));
    if (command.stop) return absl::OkStatus();
    if (absl::Status status = Execute(command, nullptr, nullptr); !status.ok()) {
      comm_.Abort(absl::StrCat("rank ", comm_.rank(), ": ", status.message()));
      return status;
    }
  }
}

absl::StatusOr<RankWorker::Reports> RankWorker::Lead(const RankCommand& command,
                                                     LayerObserver* observer) {
  if (comm_.size() > 1) {
    EncodeCommand(command, encoded_);
    std::array<std::byte, kFrameBytes> frame;
    const uint64_t size = encoded_.size();
    std::memcpy(frame.data(), &size, sizeof(size));
    if (size <= kInlineBytes) {
      std::memcpy(frame.data() + sizeof(size), encoded_.data(), size);
      HEADWAY_RETURN_IF_ERROR(comm_.Broadcast(0, frame));
    } else {
      HEADWAY_RETURN_IF_ERROR(comm_.Broadcast(0, frame));
      HEADWAY_RETURN_IF_ERROR(comm_.Broadcast(0, encoded_));
    }
  }
  Reports reports;
  if (command.stop) return reports;
  if (absl::Status status = Execute(command, observer, &reports); !status.ok()) {
    comm_.Abort(absl::StrCat("leader: ", status.message()));
    return status;
  }
  return reports;
}

absl::Status RankWorker::ExecuteTransfers(const RankCommand& command) {
  for (uint64_t id : command.closes) receiver_->Close(id);
  for (uint64_t id : command.end_sends) sender_->End(id);
  for (const ReceiveTask& open : command.opens) HEADWAY_RETURN_IF_ERROR(receiver_->Open(open));
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
    HEADWAY_RETURN_IF_ERROR(sender_->Begin(std::move(task)));
  }
  return absl::OkStatus();
}

absl::Status RankWorker::Execute(const RankCommand& command, LayerObserver* observer,
                                 Reports* reports) {
  HEADWAY_RETURN_IF_ERROR(ExecuteTransfers(command));
  if (!command.spans.empty()) {
    batch_.clear();
    for (const CommandSpan& span : command.spans) {
      batch_.push_back({.tokens = span.tokens,
                        .first_position = span.first_position,
                        .block_table = span.block_table,
                        .logits = span.logits});
    }
    PushObserver push(command, sender_.get(), observer);
    HEADWAY_RETURN_IF_ERROR(engine_.Run(batch_, &push));
  }
  // The leader tells a peer of a reservation when this command is done; every rank must know it by
  // then.
  if (!command.opens.empty()) HEADWAY_RETURN_IF_ERROR(comm_.Barrier());
  return Report(command, reports);
}

absl::Status RankWorker::Report(const RankCommand& command, Reports* reports) {
  const size_t receives = command.poll_receives.size();
  const size_t sends = command.poll_sends.size();
  if (receives + sends == 0) return absl::OkStatus();
  std::vector<ReceiveReport> my_receives(receives);
  std::vector<SendReport> my_sends(sends);
  for (size_t i = 0; i < receives; ++i) {
    const ReceiveState state = receiver_->Poll(command.poll_receives[i]);
    my_receives[i].received = state.received;
    my_receives[i].bytes = state.bytes;
    my_receives[i].refused = state.refused;
    SetStatus(state.status, my_receives[i]);
  }
  for (size_t i = 0; i < sends; ++i) {
    const SendState state = sender_->Poll(command.poll_sends[i]);
    my_sends[i].done = state.done ? 1 : 0;
    my_sends[i].bytes = state.bytes;
    for (size_t r = 0; r < state.parts.size(); ++r) my_sends[i].parts[r] = state.parts[r];
    SetStatus(state.status, my_sends[i]);
  }
  auto gather = [&](auto& mine, auto* all) -> absl::Status {
    using Item = typename std::remove_reference_t<decltype(mine)>::value_type;
    if (mine.empty()) return absl::OkStatus();
    const std::vector<int64_t> sizes(comm_.size(),
                                     static_cast<int64_t>(mine.size() * sizeof(Item)));
    std::vector<Item> by_rank(reports != nullptr ? mine.size() * comm_.size() : 0);
    HEADWAY_RETURN_IF_ERROR(comm_.Gather(0, std::as_bytes(std::span(mine)), sizes,
                                         reinterpret_cast<std::byte*>(by_rank.data())));
    if (reports == nullptr) return absl::OkStatus();
    // [rank][item] -> [item][rank]
    for (size_t i = 0; i < mine.size(); ++i) {
      for (int r = 0; r < comm_.size(); ++r) all->push_back(by_rank[r * mine.size() + i]);
    }
    return absl::OkStatus();
  };
  HEADWAY_RETURN_IF_ERROR(gather(my_receives, reports == nullptr ? nullptr : &reports->receives));
  return gather(my_sends, reports == nullptr ? nullptr : &reports->sends);
}

}  // namespace headway
