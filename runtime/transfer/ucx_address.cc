#include "runtime/transfer/ucx_address.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/hash.h"

namespace headway {
namespace {

constexpr std::string_view kMark = "hwucx1";

uint64_t Checksum(std::string_view bytes) { return Hash64(std::as_bytes(std::span(bytes))); }

}  // namespace

std::string WrapUcxAddress(std::string_view worker_address) {
  const uint64_t checksum = Checksum(worker_address);
  std::string address(kMark);
  address.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  address.append(worker_address);
  return address;
}

absl::StatusOr<std::string_view> UnwrapUcxAddress(std::string_view address) {
  uint64_t checksum;
  if (address.size() <= kMark.size() + sizeof(checksum) || !address.starts_with(kMark)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "peer address: ", address.size(), " bytes that are no address of a UCX transport"));
  }
  std::memcpy(&checksum, address.data() + kMark.size(), sizeof(checksum));
  const std::string_view worker_address = address.substr(kMark.size() + sizeof(checksum));
  if (Checksum(worker_address) != checksum) {
    return absl::InvalidArgumentError(absl::StrCat("peer address: the checksum of its ",
                                                   worker_address.size(), " bytes is wrong"));
  }
  return worker_address;
}

std::string UcxAddressName(std::string_view address) {
  return absl::StrCat("peer ", absl::Hex(Checksum(address) >> 32, absl::kZeroPad8));
}

}  // namespace headway
