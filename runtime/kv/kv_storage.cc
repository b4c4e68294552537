#include "runtime/kv/kv_storage.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/kv_pool.h"
#include "runtime/base/status.h"
#include "runtime/kv/budget.h"

namespace headway {
absl::StatusOr<std::unique_ptr<KvStorage>> KvStorage::Create(int layers, int kv_heads, int head_dim,
                                                             DType dtype, int num_blocks) {
  if (num_blocks < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a KV cache of ", num_blocks, " blocks; it must have at least 1"));
  }
  KvBudgetRequest request;
  request.layers = layers;
  request.query_heads = kv_heads;  // this rank's; how many queries share them takes no memory
  request.kv_heads = kv_heads;
  request.head_dim = head_dim;
  request.positions = int64_t{num_blocks} * kernels::kKvBlockTokens;
  request.dtype = dtype;
  const absl::StatusOr<KvBudget> budget = ComputeKvBudget(request);
  HEADWAY_RETURN_IF_ERROR(Annotate(budget.status(), "KV cache"));
  if (budget->kv_bytes > INT64_MAX - kernels::kKvSlackBytes) {
    return absl::InvalidArgumentError("KV cache: the size exceeds 2^63 - 1 bytes");
  }
  const kernels::KvLayerView layer = {
      .dtype = dtype, .head_dim = head_dim, .kv_heads = kv_heads, .num_blocks = num_blocks};
  absl::StatusOr<HostBuffer> memory = HostBuffer::Allocate(kernels::KvPoolBytes(layer, layers));
  HEADWAY_RETURN_IF_ERROR(
      Annotate(memory.status(), absl::StrCat("KV cache of ", num_blocks, " blocks")));

  std::unique_ptr<KvStorage> storage(new KvStorage);
  storage->memory_ = *std::move(memory);
  storage->num_blocks_ = num_blocks;
  storage->views_ = kernels::KvPoolViews(layer, layers, storage->memory_.data());
  return storage;
}

void KvStorage::Clear(int block) {
  // A block's layers and heads lie together (kernels/kv_pool.h).
  const int64_t bytes = views_[0].BlockStride();
  std::memset(views_[0].base + block * bytes, 0, static_cast<size_t>(bytes));
}

int64_t KvBytes(int layers, int kv_heads, int head_dim, int64_t positions, DType dtype) {
  return int64_t{2} * layers * kv_heads * head_dim * positions * BlockBytes(dtype);
}

}  // namespace headway
