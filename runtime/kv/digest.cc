#include "runtime/kv/digest.h"

#include "runtime/base/hash.h"

namespace headway {

uint64_t RunDigest(std::span<const std::byte> run) { return Hash64(run); }

uint64_t RunDigest(const kernels::KvLayerView& layer, int head, int block) {
  return RunDigest({layer.Run(head, block), static_cast<size_t>(layer.RunBytes())});
}

}  // namespace headway
