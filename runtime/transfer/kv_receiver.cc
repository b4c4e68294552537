#include "runtime/transfer/kv_receiver.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/log.h"
#include "runtime/kv/digest.h"
#include "runtime/transfer/kv_message.h"

namespace headway {
namespace {

// A reservation, held by the table and by the message that is being written.
struct Reservation {
  uint64_t id = 0;
  uint64_t epoch = 0;
  std::vector<int32_t> block_table;
  int64_t first_block = 0;

  std::mutex mutex;  // held while blocks are written: who has it and sets `closed` has the blocks
  bool closed = false;
  std::vector<bool> arrived;  // [layer][local head][block]
  ReceiveState state;
};

class CacheReceiver : public KvReceiver {
 public:
  CacheReceiver(Transport& transport, std::span<const kernels::KvLayerView> layers,
                KvReceiverOptions options)
      : transport_(transport), layers_(layers.begin(), layers.end()), options_(std::move(options)) {
    for (const kernels::KvLayerView& layer : layers_) {
      first_head_.push_back(heads_);
      heads_ += layer.kv_heads;
    }
    transport_.SetReceiver(
        [this](std::span<const std::byte> header, std::span<const std::byte> payload) {
          OnMessage(header, payload);
        });
  }

  ~CacheReceiver() override { transport_.SetReceiver({}); }

  absl::Status Open(ReceiveTask task) override;
  ReceiveState Poll(uint64_t reservation_id) const override;
  void Close(uint64_t reservation_id) override;
  int open() const override {
    std::lock_guard lock(mutex_);
    return static_cast<int>(reservations_.size());
  }
  int64_t refused_total() const override { return refused_total_; }

 private:
  void OnMessage(std::span<const std::byte> header, std::span<const std::byte> payload);
  absl::Status CheckPlace(const KvMessage& message, const Reservation& reservation) const;
  static absl::Status CheckDigests(const KvMessage& message);
  void Write(const KvMessage& message, Reservation& reservation);
  std::shared_ptr<Reservation> Find(uint64_t id) const;

  Transport& transport_;
  const std::vector<kernels::KvLayerView> layers_;
  const KvReceiverOptions options_;
  std::vector<int64_t> first_head_;  // [layer]: heads of the layers before
  int64_t heads_ = 0;                // of all layers

  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Reservation>> reservations_;
  std::atomic<int64_t> refused_total_ = 0;
};

absl::Status CacheReceiver::Open(ReceiveTask task) {
  const int64_t blocks = static_cast<int64_t>(task.block_table.size());
  if (task.first_block < 0 || task.first_block > blocks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "reservation ", task.reservation_id, ": first block ", task.first_block, " of ", blocks));
  }
  for (int32_t block : task.block_table) {
    for (const kernels::KvLayerView& layer : layers_) {
      if (block >= 0 && block < layer.num_blocks) continue;
      return absl::InvalidArgumentError(absl::StrCat("reservation ", task.reservation_id,
                                                     ": block ", block, "; the cache has ",
                                                     layer.num_blocks));
    }
  }
  auto reservation = std::make_shared<Reservation>();
  reservation->id = task.reservation_id;
  reservation->epoch = task.epoch;
  reservation->block_table = std::move(task.block_table);
  reservation->first_block = task.first_block;
  reservation->arrived.resize(heads_ * blocks);
  std::lock_guard lock(mutex_);
  if (!reservations_.emplace(reservation->id, reservation).second) {
    return absl::AlreadyExistsError(
        absl::StrCat("reservation ", reservation->id, " is open already"));
  }
  return absl::OkStatus();
}

std::shared_ptr<Reservation> CacheReceiver::Find(uint64_t id) const {
  std::lock_guard lock(mutex_);
  const auto found = reservations_.find(id);
  return found == reservations_.end() ? nullptr : found->second;
}

ReceiveState CacheReceiver::Poll(uint64_t reservation_id) const {
  const std::shared_ptr<Reservation> reservation = Find(reservation_id);
  if (reservation == nullptr) {
    ReceiveState state;
    state.status =
        absl::NotFoundError(absl::StrCat("reservation ", reservation_id, " is not open"));
    return state;
  }
  std::lock_guard lock(reservation->mutex);
  return reservation->state;
}

void CacheReceiver::Close(uint64_t reservation_id) {
  std::shared_ptr<Reservation> reservation;
  {
    std::lock_guard lock(mutex_);
    const auto found = reservations_.find(reservation_id);
    if (found == reservations_.end()) return;
    reservation = std::move(found->second);
    reservations_.erase(found);
  }
  std::lock_guard lock(reservation->mutex);
  reservation->closed = true;
}

void CacheReceiver::OnMessage(std::span<const std::byte> header,
                              std::span<const std::byte> payload) {
  const absl::StatusOr<KvMessage> message = DecodeKvMessage(header, payload);
  if (!message.ok()) {
    ++refused_total_;
    return;
  }
  const std::shared_ptr<Reservation> reservation = Find(message->header.reservation_id);
  if (reservation == nullptr) {
    ++refused_total_;
    return;
  }
  // Neither check needs the lock: what they look at does not change.
  absl::Status status = CheckPlace(*message, *reservation);
  if (status.ok()) status = CheckDigests(*message);
  std::lock_guard lock(reservation->mutex);
  if (reservation->closed) {
    ++refused_total_;
    return;
  }
  if (status.ok()) {
    Write(*message, *reservation);
    return;
  }
  ++refused_total_;
  // One line a reservation: who sends one wrong message may send many.
  if (++reservation->state.refused == 1) {
    LogWarning(absl::StrCat("KV transfer from ", message->source(), " to ",
                            options_.name.empty() ? "this rank" : options_.name, ", reservation ",
                            reservation->id, ": refused: ", status.message()));
  }
  if (absl::IsDataLoss(status) && reservation->state.status.ok()) {
    reservation->state.status = status;
  }
}

absl::Status CacheReceiver::CheckPlace(const KvMessage& message,
                                       const Reservation& reservation) const {
  const KvWireHeader& header = message.header;
  if (header.epoch != reservation.epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat("epoch ", header.epoch, "; the reservation's is ", reservation.epoch));
  }
  if (header.layer >= layers_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("layer ", header.layer, " of ", layers_.size()));
  }
  const kernels::KvLayerView& layer = layers_[header.layer];
  if (header.target_head >= static_cast<uint32_t>(layer.kv_heads)) {
    return absl::InvalidArgumentError(
        absl::StrCat("local KV head ", header.target_head, " of ", layer.kv_heads));
  }
  if (!options_.kv_heads.empty() &&
      header.kv_head != static_cast<uint32_t>(options_.kv_heads[header.target_head])) {
    return absl::InvalidArgumentError(absl::StrCat("KV head ", header.kv_head, " for local head ",
                                                   header.target_head, ", which is head ",
                                                   options_.kv_heads[header.target_head]));
  }
  if (static_cast<int64_t>(header.run_bytes) != layer.RunBytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("runs of ", header.run_bytes, " bytes; this cache's have ", layer.RunBytes()));
  }
  const int64_t end = static_cast<int64_t>(header.first_block) + header.runs;
  const int64_t blocks = static_cast<int64_t>(reservation.block_table.size());
  if (header.first_block < reservation.first_block || end > blocks) {
    return absl::InvalidArgumentError(absl::StrCat("blocks ", header.first_block, " to ", end - 1,
                                                   "; open are ", reservation.first_block, " to ",
                                                   blocks - 1));
  }
  return absl::OkStatus();
}

absl::Status CacheReceiver::CheckDigests(const KvMessage& message) {
  const KvWireHeader& header = message.header;
  for (int run = 0; run < static_cast<int>(header.runs); ++run) {
    const uint64_t digest = RunDigest(message.run(run));
    if (digest == message.digest(run)) continue;
    return absl::DataLossError(absl::StrCat("layer ", header.layer, ", KV head ", header.kv_head,
                                            ", block ", header.first_block + run,
                                            " arrived with digest ", absl::Hex(digest),
                                            ", its sender took ", absl::Hex(message.digest(run))));
  }
  return absl::OkStatus();
}

// With the reservation's mutex held, and everything checked.
void CacheReceiver::Write(const KvMessage& message, Reservation& reservation) {
  const KvWireHeader& header = message.header;
  const kernels::KvLayerView& layer = layers_[header.layer];
  const int64_t row = (first_head_[header.layer] + header.target_head) *
                      static_cast<int64_t>(reservation.block_table.size());
  for (int run = 0; run < static_cast<int>(header.runs); ++run) {
    const int block = static_cast<int>(header.first_block) + run;
    // Also keeps a late second copy from undoing what decoding has added to the last block.
    if (reservation.arrived[row + block]) continue;
    reservation.arrived[row + block] = true;
    std::memcpy(layer.Run(static_cast<int>(header.target_head), reservation.block_table[block]),
                message.run(run).data(), header.run_bytes);
    reservation.state.received.Add(static_cast<int>(header.layer), static_cast<int>(header.kv_head),
                                   block, message.digest(run));
    reservation.state.bytes += header.run_bytes;
  }
}

}  // namespace

std::unique_ptr<KvReceiver> KvReceiver::Create(Transport& transport,
                                               std::span<const kernels::KvLayerView> layers,
                                               KvReceiverOptions options) {
  return std::make_unique<CacheReceiver>(transport, layers, std::move(options));
}

}  // namespace headway
