#ifndef HEADWAY_RUNTIME_TRANSFER_TRANSPORT_H_
#define HEADWAY_RUNTIME_TRANSFER_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace headway {

// What every form of transport limits.
struct TransportLimits {
  // A message that its peer has not taken by then ends with DeadlineExceeded. Until the peer takes
  // it after all, further messages to that peer are refused with Unavailable.
  int64_t send_timeout_nanos = 10'000'000'000;
  // Of messages that are accepted and not done, per peer; what exceeds it is refused with
  // ResourceExhausted.
  int64_t max_pending_bytes = 64 << 20;
};

// Messages of one rank to ranks of other nodes: a small header and a payload, reliable, in order
// per peer. Forms: UcxTransport (processes and hosts), LocalTransport (inside a process, for
// tests). One conformance test.
class Transport {
 public:
  static constexpr size_t kMaxHeaderBytes = 4096;
  static constexpr size_t kMaxPayloadBytes = 16 << 20;

  // Called on the transport's own thread; header and payload are valid during the call only, and
  // not aligned. Must not block.
  using Receiver =
      std::function<void(std::span<const std::byte> header, std::span<const std::byte> payload)>;
  // Called once, on the transport's thread or in Send: OK when the message is handed to the peer or
  // the network, which does not say that the peer's receiver has seen it; else why not.
  using Done = std::function<void(const absl::Status&)>;

  // Waits until no callback runs any more; unsent messages end with Cancelled.
  virtual ~Transport() = default;

  // Opaque bytes by which peers reach this transport; they travel through gRPC.
  virtual std::string address() const = 0;
  // Set before the first message can arrive; what arrives without one is dropped. Waits for a
  // running call of the one before, so what that refers to may be destroyed afterwards.
  // Thread-safe, but not to be called by a receiver.
  virtual void SetReceiver(Receiver receiver) = 0;
  // The payload is the concatenation of `pieces`. Everything is copied: it may be reused when the
  // call returns. Thread-safe, never waits for a peer. InvalidArgument (through `done`) for what is
  // longer than the limits above and for an address that no transport of this form gave out;
  // Unavailable for a peer that is gone.
  virtual void SendPieces(const std::string& peer_address, std::span<const std::byte> header,
                          std::span<const std::span<const std::byte>> pieces, Done done) = 0;
  void Send(const std::string& peer_address, std::span<const std::byte> header,
            std::span<const std::byte> payload, Done done) {
    SendPieces(peer_address, header, {&payload, 1}, std::move(done));
  }
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_TRANSPORT_H_
