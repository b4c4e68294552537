#include "runtime/kv/kv_storage.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/kv/budget.h"

namespace headway {
namespace {

// Kernels may read this far behind the last run.
constexpr int64_t kSlackBytes = 64;

}  // namespace

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
  int64_t bytes = 0;
  if (__builtin_add_overflow(budget->kv_bytes, kSlackBytes, &bytes)) {
    return absl::InvalidArgumentError("KV cache: the size exceeds 2^63 - 1 bytes");
  }
  absl::StatusOr<HostBuffer> memory = HostBuffer::Allocate(static_cast<size_t>(bytes));
  HEADWAY_RETURN_IF_ERROR(
      Annotate(memory.status(), absl::StrCat("KV cache of ", num_blocks, " blocks")));

  std::unique_ptr<KvStorage> storage(new KvStorage);
  storage->memory_ = *std::move(memory);
  storage->num_blocks_ = num_blocks;
  // Block, then layer, then head: a sequence of n blocks lies in n runs of memory, not in n times
  // layers times heads, and what no sequence has used yet takes no pages.
  const int64_t block_stride = budget->kv_bytes / num_blocks;
  for (int layer = 0; layer < layers; ++layer) {
    storage->views_.push_back({.dtype = dtype,
                               .head_dim = head_dim,
                               .kv_heads = kv_heads,
                               .num_blocks = num_blocks,
                               .base = storage->memory_.data() + layer * (block_stride / layers),
                               .block_stride = block_stride});
  }
  return storage;
}

int64_t KvBytes(int layers, int kv_heads, int head_dim, int64_t positions, DType dtype) {
  return int64_t{2} * layers * kv_heads * head_dim * positions * BlockBytes(dtype);
}

}  // namespace headway
