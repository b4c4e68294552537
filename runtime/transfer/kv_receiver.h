#ifndef HEADWAY_RUNTIME_TRANSFER_KV_RECEIVER_H_
#define HEADWAY_RUNTIME_TRANSFER_KV_RECEIVER_H_

#include <cstdint>
#include <memory>
#include <span>
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
};

struct ReceiveState {
  RankManifest received;  // runs that arrived whole and agreed with their digest
  int64_t bytes = 0;
  int64_t refused = 0;  // of an unknown reservation, an older epoch, a wrong digest or place
  absl::Status status;  // DataLoss naming layer, head, block after a digest mismatch
};

// Accepts KV blocks into one decode rank's cache. A run's digest is checked before a byte reaches
// the cache; a message of an unknown or closed reservation, of another epoch, or outside its blocks
// is refused and counted. A run that arrives twice counts once. Thread-safe; messages arrive on the
// transport's thread.
class KvReceiver {
 public:
  static std::unique_ptr<KvReceiver> Create(Transport& transport,
                                            std::span<const kernels::KvLayerView> layers);
  virtual ~KvReceiver() = default;
  virtual absl::Status Open(ReceiveTask task) = 0;
  virtual ReceiveState Poll(uint64_t reservation_id) const = 0;
  // After this returns nothing is written for the reservation any more: its blocks may be reused
  // (the fence).
  virtual void Close(uint64_t reservation_id) = 0;
  virtual int64_t refused_total() const = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_KV_RECEIVER_H_
