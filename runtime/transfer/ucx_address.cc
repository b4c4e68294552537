#include "runtime/transfer/ucx_address.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>

#include "absl/strings/str_cat.h"
#include "runtime/base/hash.h"

namespace headway {
namespace {

constexpr std::string_view kMark = "hwucx2";

uint64_t Checksum(std::string_view bytes) { return Hash64(std::as_bytes(std::span(bytes))); }

}  // namespace

std::string WrapUcxAddress(std::string_view worker_address) {
  const uint64_t host = HostNumber();
  std::string inside(reinterpret_cast<const char*>(&host), sizeof(host));
  inside.append(worker_address);
  const uint64_t checksum = Checksum(inside);
  std::string address(kMark);
  address.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  address.append(inside);
  return address;
}

absl::StatusOr<UcxAddress> UnwrapUcxAddress(std::string_view address) {
  uint64_t checksum;
  UcxAddress parts;
  if (address.size() <= kMark.size() + sizeof(checksum) + sizeof(parts.host) ||
      !address.starts_with(kMark)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "peer address: ", address.size(), " bytes that are no address of a UCX transport"));
  }
  std::memcpy(&checksum, address.data() + kMark.size(), sizeof(checksum));
  const std::string_view inside = address.substr(kMark.size() + sizeof(checksum));
  if (Checksum(inside) != checksum) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer address: the checksum of its ", inside.size(), " bytes is wrong"));
  }
  std::memcpy(&parts.host, inside.data(), sizeof(parts.host));
  parts.worker = inside.substr(sizeof(parts.host));
  return parts;
}

uint64_t HostNumber() {
  static const uint64_t number = [] {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string names;
    if (!std::getline(file, names)) return uint64_t{0};
    for (const char* space : {"pid", "ipc", "net"}) {
      char link[64];
      const ssize_t length =
          readlink(absl::StrCat("/proc/self/ns/", space).c_str(), link, sizeof(link));
      if (length <= 0) return uint64_t{0};
      names.append(link, length);
    }
    return std::max<uint64_t>(1, Checksum(names));
  }();
  return number;
}

std::string UcxAddressName(std::string_view address) {
  return absl::StrCat("peer ", absl::Hex(Checksum(address) >> 32, absl::kZeroPad8));
}

}  // namespace headway
