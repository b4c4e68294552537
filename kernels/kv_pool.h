#ifndef HEADWAY_KERNELS_KV_POOL_H_
#define HEADWAY_KERNELS_KV_POOL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kv_layer_view.h"

namespace headway::kernels {

// How the layers of a KV pool lie in memory: block, then layer, then head. So a sequence of n
// blocks lies in n runs of memory, not in n times layers, and what no sequence has used yet takes
// no pages. Decided here alone.

inline constexpr int64_t kKvSlackBytes = 64;  // behind the last run: kernels may read them

// Bytes of a pool of `layers` layers of the shape of `layer`, slack included; they must fit 63
// bits.
inline int64_t KvPoolBytes(const KvLayerView& layer, int layers) {
  return layer.kv_heads * layer.RunBytes() * layers * layer.num_blocks + kKvSlackBytes;
}

// Views of all layers of such a pool in KvPoolBytes at `base`.
inline std::vector<KvLayerView> KvPoolViews(KvLayerView layer, int layers, std::byte* base) {
  std::vector<KvLayerView> views;
  const int64_t layer_bytes = layer.kv_heads * layer.RunBytes();
  layer.block_stride = layer_bytes * layers;
  for (int i = 0; i < layers; ++i) {
    layer.base = base + i * layer_bytes;
    views.push_back(layer);
  }
  return views;
}

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_KV_POOL_H_
