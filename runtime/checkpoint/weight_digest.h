#ifndef HEADWAY_RUNTIME_CHECKPOINT_WEIGHT_DIGEST_H_
#define HEADWAY_RUNTIME_CHECKPOINT_WEIGHT_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace headway {

// Builds Checkpoint::digest(): the metadata, then each tensor in ascending order of names, every
// byte of it. Reads at the speed of the file, once, and keeps little of it in memory.
class WeightDigest {
 public:
  explicit WeightDigest(std::span<const std::byte> metadata);
  // `bytes`: of a MappedFile, whose pages leave this process's memory again as they are read.
  void Add(std::string_view name, std::string_view type, const std::vector<int64_t>& shape,
           std::span<const std::byte> bytes);
  uint64_t value() const { return hash_; }

 private:
  void Fold(std::span<const std::byte> bytes);
  uint64_t hash_ = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CHECKPOINT_WEIGHT_DIGEST_H_
