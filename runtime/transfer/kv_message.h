#ifndef HEADWAY_RUNTIME_TRANSFER_KV_MESSAGE_H_
#define HEADWAY_RUNTIME_TRANSFER_KV_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace headway {

// The header of a message with KV runs: neighbouring blocks of one layer and one KV head, whose
// bytes are the payload, one run after the other. On the wire it is this struct (little-endian, no
// gaps), then one 64-bit digest a run; README.md has the table.
struct KvWireHeader {
  static constexpr uint32_t kMagic = 0x3156'4b48;  // "HKV1"; the last digit is the version
  static constexpr size_t kSourceBytes = 32;

  uint32_t magic = kMagic;
  uint32_t layer = 0;
  uint64_t reservation_id = 0;
  uint64_t epoch = 0;
  uint32_t kv_head = 0;      // global
  uint32_t target_head = 0;  // in the target rank's cache
  uint32_t first_block = 0;  // index in the sequence: position / 16
  uint32_t runs = 0;
  uint32_t run_bytes = 0;
  uint32_t check = 0;              // of this header and the digests; EncodeKvHeader fills it in
  char source[kSourceBytes] = {};  // who sends, for logs; padded with zeros
};
static_assert(sizeof(KvWireHeader) == 80);

// Bounds of one message: what fits a transport's header, and what keeps it moving. Larger messages
// are not faster (tests/bench/transfer_bench), but hold up others and take more memory under way.
inline constexpr int kMaxKvMessageRuns = (4096 - sizeof(KvWireHeader)) / sizeof(uint64_t);
inline constexpr int64_t kMaxKvMessageBytes = 256 << 10;

// Runs of `run_bytes` that one message may carry; one at least.
int KvMessageRuns(int64_t run_bytes);

// The header as it travels. `digests` has header.runs entries.
void EncodeKvHeader(KvWireHeader header, std::span<const uint64_t> digests,
                    std::vector<std::byte>& bytes);

// A received header, of which is known that it arrived as it was sent and that its lengths agree
// with one another and with those of the message. Whether its values make sense here is the
// receiver's to say.
struct KvMessage {
  KvWireHeader header;
  const std::byte* digests = nullptr;  // header.runs of 64 bits, not aligned
  std::span<const std::byte> payload;  // header.runs * header.run_bytes

  uint64_t digest(int run) const;
  std::span<const std::byte> run(int run) const {
    return payload.subspan(static_cast<size_t>(run) * header.run_bytes, header.run_bytes);
  }
  // Printable, whatever arrived.
  std::string source() const;
};

// InvalidArgument saying what does not fit. The result refers to both spans.
absl::StatusOr<KvMessage> DecodeKvMessage(std::span<const std::byte> header,
                                          std::span<const std::byte> payload);

// Cut to what fits.
void SetKvSource(std::string_view name, KvWireHeader& header);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_KV_MESSAGE_H_
