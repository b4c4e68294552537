#ifndef HEADWAY_RUNTIME_TRANSFER_UCX_ADDRESS_H_
#define HEADWAY_RUNTIME_TRANSFER_UCX_ADDRESS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace headway {

// UCX takes a worker address apart without checking it, so bytes that are none can crash the
// process. Addresses therefore travel between a mark, a version, a checksum and the host's number.
std::string WrapUcxAddress(std::string_view worker_address);

struct UcxAddress {
  std::string_view worker;  // the worker address inside, which lives as long as the whole
  uint64_t host = 0;        // HostNumber() where it was made
};

// InvalidArgument for anything that WrapUcxAddress did not return.
absl::StatusOr<UcxAddress> UnwrapUcxAddress(std::string_view address);

// The same in all processes that may reach each other's shared memory: one running kernel, and the
// same namespaces of processes, of shared memory and of the sockets by which UCX wakes a reader.
// 0 where the system does not tell.
uint64_t HostNumber();

// A short name for messages and logs.
std::string UcxAddressName(std::string_view address);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_UCX_ADDRESS_H_
