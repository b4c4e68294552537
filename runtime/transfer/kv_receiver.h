#ifndef HEADWAY_RUNTIME_TRANSFER_KV_RECEIVER_H_
#define HEADWAY_RUNTIME_TRANSFER_KV_RECEIVER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/kv_layer_view.h"
#include "runtime/transfer/manifest.h"
#include "runtime/transfer/transport.h"

namespace headway {

// One rank's side of a reservation: which of its blocks a peer may fill.
struct ReceiveTask {
  uint64_t reservation_id = 0;
  uint64_t epoch = 0;
  std::vector<int32_t> block_table;  // target block ids; index = position / 16
  int first_block = 0;               // block indices below are there already; nobody may fill them
};

struct ReceiveState {
  RankManifest received;  // runs that arrived whole and agreed with their digest
  int64_t bytes = 0;
  int64_t refused = 0;  // messages of another epoch, a wrong digest or place
  // DataLoss naming layer, head, block after a digest mismatch; NotFound: no such reservation.
  absl::Status status;
};

struct KvReceiverOptions {
  std::string name;  // of this rank, in logs
  // Global ids of this rank's KV heads, by local head: a message that takes one for another is
  // refused. Empty: not checked.
  std::vector<int> kv_heads;
};

// Accepts KV blocks into one decode rank's cache. The digests of a message are checked before a
// byte of it reaches the cache; a message of an unknown or closed reservation, of another epoch,
// with a wrong digest, or outside the reservation's blocks is refused whole and counted. A run that
// arrives twice is written and counts once. Thread-safe; messages arrive on the transport's thread.
class KvReceiver {
 public:
  // Becomes the transport's receiver until it is destroyed. The transport and the memory behind
  // `layers` must outlive it.
  static std::unique_ptr<KvReceiver> Create(Transport& transport,
                                            std::span<const kernels::KvLayerView> layers,
                                            KvReceiverOptions options = {});
  virtual ~KvReceiver() = default;
  // AlreadyExists for an open reservation; InvalidArgument for blocks that the cache does not have.
  virtual absl::Status Open(ReceiveTask task) = 0;
  virtual ReceiveState Poll(uint64_t reservation_id) const = 0;
  // After this returns nothing is written for the reservation any more: its blocks may be reused
  // (the fence).
  virtual void Close(uint64_t reservation_id) = 0;
  // Reservations that are open now.
  virtual int open() const = 0;
  // Messages refused since the start, those of no reservation at all included.
  virtual int64_t refused_total() const = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_KV_RECEIVER_H_
