#include "runtime/checkpoint/weight_digest.h"

#include <algorithm>

#include "runtime/base/hash.h"

namespace headway {
namespace {

constexpr size_t kSampleBytes = 4096;

}  // namespace

WeightDigest::WeightDigest(std::span<const std::byte> metadata) { Fold(metadata); }

void WeightDigest::Add(std::string_view name, std::string_view type,
                       const std::vector<int64_t>& shape, std::span<const std::byte> bytes) {
  Fold(std::as_bytes(std::span(name)));
  Fold(std::as_bytes(std::span(type)));
  Fold(std::as_bytes(std::span(shape)));
  const size_t sample = std::min(bytes.size(), kSampleBytes);
  Fold(bytes.first(sample));
  Fold(bytes.last(sample));
}

// Lengths are folded too, so that no two sequences of parts run together alike.
void WeightDigest::Fold(std::span<const std::byte> bytes) {
  hash_ = HashCombine(hash_, bytes.size());
  hash_ = HashCombine(hash_, Hash64(bytes));
}

}  // namespace headway
