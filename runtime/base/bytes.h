#ifndef HEADWAY_RUNTIME_BASE_BYTES_H_
#define HEADWAY_RUNTIME_BASE_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace headway {

// Reads an amount of memory as people write it: "80GiB", "1.5GiB", "512 MiB", "24GB", "1000000".
// Units: B, KiB MiB GiB TiB (powers of 1024), KB MB GB TB (powers of 1000), in any case; none means
// bytes. A fraction of a byte is cut off. InvalidArgument naming the text when it is anything else,
// negative, or beyond 2^63 - 1.
absl::StatusOr<int64_t> ParseBytes(std::string_view text);

// "80 GiB", "1.5 GiB", "999 B": at most two decimals, the largest unit that leaves at least 1.
std::string FormatBytes(int64_t bytes);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_BASE_BYTES_H_
