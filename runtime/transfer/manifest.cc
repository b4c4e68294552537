#include "runtime/transfer/manifest.h"

#include "runtime/base/hash.h"

namespace headway {

void RankManifest::Add(int layer, int kv_head, int block_index, uint64_t run_digest) {
  // Layers, heads and block indices are below 2^16, 2^16 and 2^32: one word names the place.
  const uint64_t place = static_cast<uint64_t>(static_cast<uint32_t>(layer)) << 48 |
                         static_cast<uint64_t>(static_cast<uint16_t>(kv_head)) << 32 |
                         static_cast<uint32_t>(block_index);
  ++runs;
  digest += HashCombine(place, run_digest);
}

}  // namespace headway
