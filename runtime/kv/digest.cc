#include "runtime/kv/digest.h"

#include "runtime/base/hash.h"

namespace headway {

uint64_t RunDigest(std::span<const std::byte> run) { return Hash64(run); }

}  // namespace headway
