#ifndef HEADWAY_RUNTIME_BASE_HASH_H_
#define HEADWAY_RUNTIME_BASE_HASH_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace headway {

// XXH3 (64 bits) of `bytes`. The same on every machine, so digests may be compared between nodes.
uint64_t Hash64(std::span<const std::byte> bytes, uint64_t seed = 0);

// Folds `value` into `hash`; the order of folding matters.
uint64_t HashCombine(uint64_t hash, uint64_t value);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_BASE_HASH_H_
