#ifndef HEADWAY_RUNTIME_TRANSFER_UCX_ADDRESS_H_
#define HEADWAY_RUNTIME_TRANSFER_UCX_ADDRESS_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace headway {

// UCX takes a worker address apart without checking it, so bytes that are none can crash the
// process. Addresses therefore travel between a mark, a version and a checksum.
std::string WrapUcxAddress(std::string_view worker_address);

// The worker address inside, which lives as long as `address`; InvalidArgument for anything that
// WrapUcxAddress did not return.
absl::StatusOr<std::string_view> UnwrapUcxAddress(std::string_view address);

// A short name for messages and logs.
std::string UcxAddressName(std::string_view address);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_UCX_ADDRESS_H_
