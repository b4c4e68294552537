#ifndef HEADWAY_RUNTIME_COMM_COMMUNICATOR_H_
#define HEADWAY_RUNTIME_COMM_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace headway {

// Collective exchange among the ranks of one node. Every rank makes the same calls in the same
// order with matching sizes. Calls block until done; none sums anything (the order of sums is the
// contract's: ordered_reduce.h).
//
// Thread-compatible: one thread of a rank calls it. Abort may be called from any thread. Nothing
// allocates but errors. At most 16 ranks.
// Errors: Unavailable naming the rank that is gone, Aborted with the text of Abort,
// DeadlineExceeded naming the peer that does not arrive within the communicator's timeout,
// InvalidArgument for sizes that do not fit together, Internal when ranks make different calls. Any
// error ends the communicator for all ranks: each gets it in its next or present call, and again at
// once in every later one.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual absl::Status Barrier() = 0;

  // Rank `root`'s bytes to all; the root does not wait for them to be read. A rank that waits here
  // without a limit (idle leader) neither burns a core nor times out, unless the root never joined;
  // it still notices Abort and a dead peer.
  virtual absl::Status Broadcast(int root, std::span<std::byte> bytes) = 0;

  // all = rank 0's bytes, rank 1's, ...; sizes[r] is what rank r gives (sizes.size() == size()).
  // `all` may be null on ranks other than `root` when root >= 0 (a gather); root == -1: every rank
  // gets all. `mine` may be its own place in `all`. Ranks that get nothing need not wait.
  virtual absl::Status Gather(int root, std::span<const std::byte> mine,
                              std::span<const int64_t> sizes, std::byte* all) = 0;

  // Rank r gets the bytes that each rank q holds at send[offset of r]: send_sizes[r] bytes for each
  // r, concatenated; receives recv_sizes[q] bytes from each q, concatenated.
  virtual absl::Status AllToAll(std::span<const std::byte> send,
                                std::span<const int64_t> send_sizes, std::byte* recv,
                                std::span<const int64_t> recv_sizes) = 0;

  // Wakes every rank with `reason`; later calls return it.
  virtual void Abort(const std::string& reason) = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_COMM_COMMUNICATOR_H_
