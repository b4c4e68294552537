#ifndef HEADWAY_KERNELS_KV_LAYER_VIEW_H_
#define HEADWAY_KERNELS_KV_LAYER_VIEW_H_

#include <cstddef>
#include <cstdint>

#include "runtime/tensor/dtype.h"

namespace headway::kernels {

inline constexpr int kKvBlockTokens = 16;    // positions of a KV block
inline constexpr int kAttentionSplit = 256;  // key positions of one attention split, aligned to 0

// The KV cache of one layer and the local KV heads of a rank. A view: the pool owns the memory.
// One (head, block) is one contiguous run of RunBytes(): K as [head_dim][16 tokens], then V as
// [16 tokens][head_dim]. Values are rounded to nearest even as they are stored; what the format
// cannot hold is stored as its largest finite value with the same sign, a NaN as the lowest one. So
// every value that a kernel may read is finite (the pool zeroes its memory), and a row cannot spoil
// another through a masked key. 64 bytes past the last run may be read.
struct KvLayerView {
  DType dtype = DType::kF16;  // kF16, kBF16 or kF32
  int head_dim = 0;
  int kv_heads = 0;        // local
  int64_t num_blocks = 0;  // of the pool
  std::byte* base = nullptr;
  // Bytes from one block to the next, of the same head. A block's heads lie next to each other; a
  // pool puts its layers between, so that the blocks of a short sequence touch few pages. 0: the
  // blocks of this layer alone are adjacent.
  int64_t block_stride = 0;

  int64_t HalfRunBytes() const {
    return static_cast<int64_t>(kKvBlockTokens) * head_dim * BlockBytes(dtype);
  }
  int64_t RunBytes() const { return 2 * HalfRunBytes(); }
  int64_t BlockStride() const { return block_stride != 0 ? block_stride : kv_heads * RunBytes(); }
  // K of (head, block); V follows at HalfRunBytes().
  std::byte* Run(int head, int block) const {
    return base + block * BlockStride() + head * RunBytes();
  }
};

// Neighbouring rows of a batch that are consecutive positions of one sequence.
struct SpanView {
  int first_row = 0;
  int rows = 0;
  int first_position = 0;
  const int32_t* block_table =
      nullptr;  // block id of position p at [p / 16]; covers all rows' positions
};

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_KV_LAYER_VIEW_H_
