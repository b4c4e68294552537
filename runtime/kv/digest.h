#ifndef HEADWAY_RUNTIME_KV_DIGEST_H_
#define HEADWAY_RUNTIME_KV_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace headway {

// The digest of one run: K and V of one (layer, KV head, block). Taken when the block is full or
// about to be sent, compared wherever the run arrives. A partly filled block has a digest too: the
// positions not yet written count with the bytes they hold.
uint64_t RunDigest(std::span<const std::byte> run);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_KV_DIGEST_H_
