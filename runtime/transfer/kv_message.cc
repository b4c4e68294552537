#include "runtime/transfer/kv_message.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/hash.h"
#include "runtime/transfer/transport.h"

namespace headway {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");
static_assert(sizeof(KvWireHeader) + kMaxKvMessageRuns * sizeof(uint64_t) <=
              Transport::kMaxHeaderBytes);
static_assert(kMaxKvMessageBytes <= static_cast<int64_t>(Transport::kMaxPayloadBytes));

namespace {

// Of the encoded bytes, the check itself left out.
uint32_t Check(std::span<const std::byte> bytes) {
  constexpr size_t kAt = offsetof(KvWireHeader, check);
  const uint64_t before = Hash64(bytes.first(kAt));
  return static_cast<uint32_t>(Hash64(bytes.subspan(kAt + sizeof(uint32_t)), before));
}

}  // namespace

int KvMessageRuns(int64_t run_bytes) {
  return static_cast<int>(
      std::clamp<int64_t>(kMaxKvMessageBytes / run_bytes, 1, kMaxKvMessageRuns));
}

void EncodeKvHeader(KvWireHeader header, std::span<const uint64_t> digests,
                    std::vector<std::byte>& bytes) {
  bytes.resize(sizeof(header) + digests.size_bytes());
  std::memcpy(bytes.data(), &header, sizeof(header));
  if (!digests.empty()) {
    std::memcpy(bytes.data() + sizeof(header), digests.data(), digests.size_bytes());
  }
  header.check = Check(bytes);
  std::memcpy(bytes.data(), &header, sizeof(header));
}

absl::StatusOr<KvMessage> DecodeKvMessage(std::span<const std::byte> header,
                                          std::span<const std::byte> payload) {
  KvMessage message;
  if (header.size() < sizeof(message.header)) {
    return absl::InvalidArgumentError(absl::StrCat("KV message: header of ", header.size(),
                                                   " bytes; ", sizeof(message.header),
                                                   " are the least"));
  }
  std::memcpy(&message.header, header.data(), sizeof(message.header));
  const KvWireHeader& fields = message.header;
  if (fields.magic != KvWireHeader::kMagic) {
    return absl::InvalidArgumentError(absl::StrCat("KV message: mark ", absl::Hex(fields.magic),
                                                   "; this version's is ",
                                                   absl::Hex(KvWireHeader::kMagic)));
  }
  if (fields.runs == 0 || fields.runs > kMaxKvMessageRuns ||
      header.size() != sizeof(fields) + fields.runs * sizeof(uint64_t)) {
    return absl::InvalidArgumentError(absl::StrCat("KV message: ", fields.runs,
                                                   " runs in a header of ", header.size(),
                                                   " bytes; at most ", kMaxKvMessageRuns));
  }
  if (payload.size() != static_cast<uint64_t>(fields.runs) * fields.run_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("KV message: payload of ", payload.size(),
                                                   " bytes for ", fields.runs, " runs of ",
                                                   fields.run_bytes));
  }
  if (fields.check != Check(header)) {
    return absl::DataLossError("KV message: the header's check does not agree with its bytes");
  }
  message.digests = header.data() + sizeof(fields);
  message.payload = payload;
  return message;
}

uint64_t KvMessage::digest(int run) const {
  uint64_t value;
  std::memcpy(&value, digests + run * sizeof(value), sizeof(value));
  return value;
}

std::string KvMessage::source() const {
  std::string name(header.source, strnlen(header.source, sizeof(header.source)));
  for (char& c : name) {
    if (c < ' ' || c > '~') c = '?';
  }
  return name.empty() ? "unnamed" : name;
}

void SetKvSource(std::string_view name, KvWireHeader& header) {
  std::memset(header.source, 0, sizeof(header.source));
  std::memcpy(header.source, name.data(), std::min(name.size(), sizeof(header.source)));
}

}  // namespace headway
