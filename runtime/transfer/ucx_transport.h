#ifndef HEADWAY_RUNTIME_TRANSFER_UCX_TRANSPORT_H_
#define HEADWAY_RUNTIME_TRANSFER_UCX_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/base/clock.h"
#include "runtime/transfer/transport.h"

namespace headway {

struct UcxOptions {
  TransportLimits limits;
  // UCX's list of transports between hosts: tcp and, where there is a card for it, RDMA. Only such
  // as tell when a peer has died, which UCX's shared memory does not.
  std::string transports = "^sm,self";
  // UCX's shared memory transport between processes of one host, in a lane for each pair of them;
  // empty: none. The network is used as well, to agree on the lane and to learn of the peer's end,
  // and for all messages where there can be no lane.
  std::string host_transport = "posix";
  // UCX's list of network devices, such as "eth0" or "mlx5_0:1,lo". Each transport listens on an
  // ephemeral tcp port of these. UCX neither encrypts nor authenticates: name a private network.
  std::string net_devices = "all";
  // Of one peer's messages, bytes that are given to UCX at a time; the rest waits here. More does
  // not go faster, and is what stays occupied when a peer hangs.
  int64_t max_in_flight_bytes = 4 << 20;
  // How long the destructor lets messages leave.
  int64_t close_grace_nanos = 1'000'000'000;
};

// Transport on UCX active messages, with UCX workers and a thread of its own that sleeps while
// nothing happens. Any number may live in a process.
//
// A peer that dies ends its messages with Unavailable, and harms no message of others.
class UcxTransport {
 public:
  // `clock` must outlive the transport. Unavailable where UCX is not installed, or refuses the
  // options.
  static absl::StatusOr<std::unique_ptr<Transport>> Create(const UcxOptions& options,
                                                           const Clock& clock = Clock::Real());
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_UCX_TRANSPORT_H_
