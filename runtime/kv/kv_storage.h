#ifndef HEADWAY_RUNTIME_KV_KV_STORAGE_H_
#define HEADWAY_RUNTIME_KV_KV_STORAGE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/kv_layer_view.h"
#include "runtime/device/host_buffer.h"
#include "runtime/tensor/dtype.h"

namespace headway {

// The memory of one rank's KV cache: every layer and local head, `num_blocks` blocks, ordered by
// block, then layer, then head. Zeroed; 64 bytes of slack at the end; every run 64-byte aligned.
// Which block belongs to whom is BlockPool's affair. Writers of different runs need not agree.
class KvStorage {
 public:
  // InvalidArgument naming the number when one is below 1, `dtype` is none of a KV cache, or the
  // size exceeds 2^63 - 1 bytes; ResourceExhausted with the size when the memory cannot be had.
  static absl::StatusOr<std::unique_ptr<KvStorage>> Create(int layers, int kv_heads, int head_dim,
                                                           DType dtype, int num_blocks);
  std::span<const kernels::KvLayerView> layers() const { return views_; }
  int num_blocks() const { return num_blocks_; }
  // Zeroes a block in every layer and head. `block` is one of this storage.
  void Clear(int block);
  // Bytes per (layer, head, block).
  int64_t run_bytes() const { return views_[0].RunBytes(); }

 private:
  KvStorage() = default;
  HostBuffer memory_;
  std::vector<kernels::KvLayerView> views_;
  int num_blocks_ = 0;
};

// 2 x layers x kv_heads x head_dim x positions x bytes of a value. The product must fit 63 bits;
// ComputeKvBudget checks numbers from outside.
int64_t KvBytes(int layers, int kv_heads, int head_dim, int64_t positions, DType dtype);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_KV_KV_STORAGE_H_
