#ifndef HEADWAY_RUNTIME_TRANSFER_KV_SENDER_H_
#define HEADWAY_RUNTIME_TRANSFER_KV_SENDER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kernels/kv_layer_view.h"
#include "runtime/base/clock.h"
#include "runtime/transfer/manifest.h"
#include "runtime/transfer/plan.h"
#include "runtime/transfer/transport.h"

namespace headway {

// One rank's part of a push to a reservation on a decode node.
struct SendTask {
  uint64_t reservation_id = 0;  // the decode node's
  uint64_t epoch = 0;
  std::vector<HeadRoute> routes;            // those of this source rank
  std::vector<std::string> peer_addresses;  // transport address per target rank
  std::vector<int32_t> block_table;         // source block ids; index = position / 16
  int first_block = 0;                      // block indices below are already at the target
  int64_t deadline_nanos = 0;  // of the lease, on the sender's clock; nothing is sent after it
};

struct SendState {
  bool done = false;    // all enqueued runs were handed over and their memory may be reused
  absl::Status status;  // first failure, after which nothing more is sent; NotFound: no such task
  int64_t bytes = 0;
  std::vector<RankManifest> parts;  // per target rank, what this source has sent so far
};

// Pushes KV blocks of one prefill rank, layer by layer, while the next layer computes: OnLayerReady
// only enqueues; digests are taken and messages sent on the sender's own thread. Tasks take turns,
// a message each; one whose peer takes nothing does not hold up the others. Thread-safe.
// Begin, then OnLayerReady any number of times, then Poll until done, then End.
class KvSender {
 public:
  // Transport, clock and the memory behind `layers` must outlive the sender. `name` is what
  // receivers call this rank in their logs, cut to 32 bytes.
  static std::unique_ptr<KvSender> Create(Transport& transport,
                                          std::span<const kernels::KvLayerView> layers,
                                          const Clock& clock, std::string_view name = "");
  virtual ~KvSender() = default;
  // AlreadyExists for a reservation that is under way; InvalidArgument for routes, peers or blocks
  // that do not fit together or this rank. What may go wrong later (a peer's address, a deadline
  // that has passed) is told by Poll.
  virtual absl::Status Begin(SendTask task) = 0;
  // K and V of block indices [begin, end) of the sequence are final in `layer` (a last, partial
  // block included). What is said twice is sent once; an unknown reservation is ignored, because it
  // may just have ended.
  virtual void OnLayerReady(uint64_t reservation_id, int layer, int begin, int end) = 0;
  // Takes the memory of `state.parts` up again: looking anew allocates nothing.
  virtual void Poll(uint64_t reservation_id, SendState& state) = 0;
  SendState Poll(uint64_t reservation_id) {
    SendState state;
    Poll(reservation_id, state);
    return state;
  }
  // Tasks that have begun and not ended.
  virtual int open() const = 0;
  // Forgets the task. Returns when its blocks are read no more and nothing of it is handed to the
  // transport any more; waits for at most one message's hand-over. What the transport has by then
  // may still arrive: the receiver's Close is the fence against it.
  virtual void End(uint64_t reservation_id) = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_KV_SENDER_H_
