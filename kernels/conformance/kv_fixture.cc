#include "kernels/conformance/kv_fixture.h"

#include <utility>

#include "kernels/reference/scalar_math.h"
#include "runtime/base/check.h"

namespace headway::kernels {

KvCache::KvCache(DType dtype, int head_dim, int kv_heads, int blocks, Random& random) {
  view = {dtype, head_dim, kv_heads, blocks, nullptr};
  const int64_t bytes = view.RunBytes() * kv_heads * blocks;
  memory = Memory(bytes + 64);
  view.base = memory.data();
  for (int64_t at = 0; at < bytes; at += BlockBytes(dtype)) {
    reference::StoreKv(dtype, random.Symmetric(60000.0f), view.base + at);
  }
  for (int b = 0; b < blocks; ++b) order.push_back(b);
  for (int b = blocks - 1; b > 0; --b) std::swap(order[b], order[random.Below(b + 1)]);
}

std::vector<int32_t> KvCache::Blocks(int positions) {
  std::vector<int32_t> table;
  for (int p = 0; p < positions; p += kKvBlockTokens) {
    HEADWAY_CHECK(next_block < static_cast<int>(order.size()));
    table.push_back(order[next_block++]);
  }
  return table;
}

std::byte* KvCache::KeyAt(int head, const std::vector<int32_t>& table, int position, int d) const {
  return view.Run(head, table[position / kKvBlockTokens]) +
         (d * kKvBlockTokens + position % kKvBlockTokens) * BlockBytes(view.dtype);
}

std::byte* KvCache::ValueAt(int head, const std::vector<int32_t>& table, int position,
                            int d) const {
  return view.Run(head, table[position / kKvBlockTokens]) + view.HalfRunBytes() +
         (position % kKvBlockTokens * view.head_dim + d) * BlockBytes(view.dtype);
}

void KvCache::FillSequence(const std::vector<int32_t>& table, int positions, Random& random) {
  for (int h = 0; h < view.kv_heads; ++h) {
    for (int p = 0; p < positions; ++p) {
      for (int d = 0; d < view.head_dim; ++d) {
        reference::StoreKv(view.dtype, random.Symmetric(1.0f), KeyAt(h, table, p, d));
        reference::StoreKv(view.dtype, random.Symmetric(2.0f), ValueAt(h, table, p, d));
      }
    }
  }
}

}  // namespace headway::kernels
