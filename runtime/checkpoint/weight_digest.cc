#include "runtime/checkpoint/weight_digest.h"

#include <algorithm>

#include "runtime/base/hash.h"
#include "runtime/base/mapped_file.h"

namespace headway {
namespace {

// What is in memory at once.
constexpr size_t kPieceBytes = size_t{4} << 20;

}  // namespace

WeightDigest::WeightDigest(std::span<const std::byte> metadata) { Fold(metadata); }

void WeightDigest::Add(std::string_view name, std::string_view type,
                       const std::vector<int64_t>& shape, std::span<const std::byte> bytes) {
  Fold(std::as_bytes(std::span(name)));
  Fold(std::as_bytes(std::span(type)));
  Fold(std::as_bytes(std::span(shape)));
  do {
    const std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), kPieceBytes));
    Fold(piece);
    MappedFile::DropResidentPages(piece);
    bytes = bytes.subspan(piece.size());
  } while (!bytes.empty());
}

// Lengths are folded too, so that no two sequences of parts run together alike.
void WeightDigest::Fold(std::span<const std::byte> bytes) {
  hash_ = HashCombine(hash_, bytes.size());
  hash_ = HashCombine(hash_, Hash64(bytes));
}

}  // namespace headway
