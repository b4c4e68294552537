#ifndef HEADWAY_RUNTIME_TRANSFER_UCX_MESSAGE_H_
#define HEADWAY_RUNTIME_TRANSFER_UCX_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "runtime/transfer/transport.h"

namespace headway {

// Before the header and the payload of each message; all three lie in one buffer.
struct UcxMessagePrefix {
  static constexpr uint32_t kMessage = 0x32544b48;   // "HKT2"
  static constexpr uint32_t kGreeting = 0x32474b48;  // "HKG2": opens a lane; carries nothing
  uint32_t mark = kMessage;
  uint32_t header_bytes = 0;
  uint64_t bytes = 0;  // of the whole message, this among them
};

inline constexpr size_t kMaxUcxMessageBytes =
    sizeof(UcxMessagePrefix) + Transport::kMaxHeaderBytes + Transport::kMaxPayloadBytes;

// How two transports of one host agree on a lane (ucx_lane.h).
struct UcxLaneControl {
  enum Kind : uint32_t { kAsk = 1, kAnswer = 2 };
  uint32_t kind = kAsk;
  uint64_t id = 0;      // the asker's; the answer repeats it
  std::string address;  // kAsk: the asker's; kAnswer: of the lane, empty for none
};

namespace ucx_internal {
struct LaneControlPrefix {
  static constexpr uint32_t kMark = 0x324c4b48;  // "HKL2"
  uint32_t mark = kMark;
  uint32_t kind = 0;
  uint64_t id = 0;
};
}  // namespace ucx_internal

inline std::string EncodeLaneControl(const UcxLaneControl& control) {
  const ucx_internal::LaneControlPrefix prefix = {.kind = control.kind, .id = control.id};
  return std::string(reinterpret_cast<const char*>(&prefix), sizeof(prefix)) + control.address;
}

// Nothing for bytes that EncodeLaneControl did not make.
inline std::optional<UcxLaneControl> DecodeLaneControl(std::span<const std::byte> bytes) {
  ucx_internal::LaneControlPrefix prefix;
  if (bytes.size() < sizeof(prefix)) return {};
  std::memcpy(&prefix, bytes.data(), sizeof(prefix));
  if (prefix.mark != prefix.kMark) return {};
  if (prefix.kind != UcxLaneControl::kAsk && prefix.kind != UcxLaneControl::kAnswer) return {};
  return UcxLaneControl{
      .kind = prefix.kind,
      .id = prefix.id,
      .address = std::string(reinterpret_cast<const char*>(bytes.data()) + sizeof(prefix),
                             bytes.size() - sizeof(prefix))};
}

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_UCX_MESSAGE_H_
