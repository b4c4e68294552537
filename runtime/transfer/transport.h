#ifndef HEADWAY_RUNTIME_TRANSFER_TRANSPORT_H_
#define HEADWAY_RUNTIME_TRANSFER_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"

namespace headway {

// Messages of one rank to ranks of other nodes: a small header and a payload, reliable, in order
// per peer. Forms: UcxTransport (processes and hosts), LocalTransport (inside a process, for
// tests). One conformance test.
class Transport {
 public:
  // Called on the transport's own thread; header and payload are valid during the call only. Must
  // not block.
  using Receiver =
      std::function<void(std::span<const std::byte> header, std::span<const std::byte> payload)>;
  // Called once, on the transport's thread or in Send, when the payload may be reused.
  using Done = std::function<void(const absl::Status&)>;

  virtual ~Transport() =
      default;  // waits until no callback runs any more; unsent messages end with Cancelled

  // Opaque bytes by which peers reach this transport; they travel through gRPC.
  virtual std::string address() const = 0;
  // Set before the first message can arrive. Thread-safe.
  virtual void SetReceiver(Receiver receiver) = 0;
  // Thread-safe, never blocks. `header` is copied (at most 4 KiB); `payload` stays valid until
  // `done`.
  virtual void Send(const std::string& peer_address, std::span<const std::byte> header,
                    std::span<const std::byte> payload, Done done) = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_TRANSPORT_H_
