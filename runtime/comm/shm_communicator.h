#ifndef HEADWAY_RUNTIME_COMM_SHM_COMMUNICATOR_H_
#define HEADWAY_RUNTIME_COMM_SHM_COMMUNICATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/comm/communicator.h"

namespace headway {

// A communicator among processes of one host through a shared memory segment.
struct ShmCommunicatorOptions {
  int rank = 0;
  int size = 1;
  // A file descriptor of the segment (memfd), inherited from the process that made it: nothing is
  // left in /dev/shm.
  int fd = -1;
  absl::Duration timeout = absl::Seconds(30);  // for a peer to arrive at a collective
};

// Bytes of the segment for `size` ranks. Larger payloads are exchanged in pieces.
int64_t ShmSegmentBytes(int size);
// A fresh segment as a memfd without close-on-exec; the caller owns the descriptor.
absl::StatusOr<int> NewShmSegment(int size);
// Maps the segment (the fd may be closed afterwards). A rank whose process has died is noticed by
// its pid.
absl::StatusOr<std::unique_ptr<Communicator>> NewShmCommunicator(
    const ShmCommunicatorOptions& options);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_COMM_SHM_COMMUNICATOR_H_
