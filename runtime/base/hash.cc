#include "runtime/base/hash.h"

#include <xxhash.h>

namespace headway {

uint64_t Hash64(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t HashCombine(uint64_t hash, uint64_t value) {
  const uint64_t pair[2] = {hash, value};
  return XXH3_64bits(pair, sizeof(pair));
}

}  // namespace headway
