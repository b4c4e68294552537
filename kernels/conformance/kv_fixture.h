#ifndef HEADWAY_KERNELS_CONFORMANCE_KV_FIXTURE_H_
#define HEADWAY_KERNELS_CONFORMANCE_KV_FIXTURE_H_

#include <vector>

#include "kernels/conformance/fixture.h"

namespace headway::kernels {

// One layer's cache, filled with finite numbers of any size: what a kernel must not look at is
// garbage, not zero.
struct KvCache {
  HostBuffer memory;
  KvLayerView view;
  int next_block = 0;
  std::vector<int32_t> order;  // block ids, shuffled

  KvCache(DType dtype, int head_dim, int kv_heads, int blocks, Random& random);

  // A block table for so many positions; ids are neither neighbours nor ascending.
  std::vector<int32_t> Blocks(int positions);

  std::byte* KeyAt(int head, const std::vector<int32_t>& table, int position, int d) const;
  std::byte* ValueAt(int head, const std::vector<int32_t>& table, int position, int d) const;
  // Plausible keys and values for positions [0, positions) of every head.
  void FillSequence(const std::vector<int32_t>& table, int positions, Random& random);
};

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_CONFORMANCE_KV_FIXTURE_H_
