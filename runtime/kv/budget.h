#ifndef HEADWAY_RUNTIME_KV_BUDGET_H_
#define HEADWAY_RUNTIME_KV_BUDGET_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/tensor/dtype.h"

namespace headway {

// InvalidArgument naming `dtype` when a KV cache cannot hold it: kF16, kBF16 and kF32 it can.
absl::Status CheckKvDType(DType dtype);

// What a KV cache is asked to hold.
struct KvBudgetRequest {
  int64_t layers = 0;
  int64_t query_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t positions = 0;      // of one sequence
  DType dtype = DType::kF16;  // kF16, kBF16 or kF32
  // KV heads that each rank stores; a head that two ranks share counts on both. Empty: one rank.
  std::vector<int64_t> kv_heads_per_rank;
  // Memory for the KV cache on each rank; none when that is not asked.
  std::optional<int64_t> memory_bytes;
};

struct KvBudget {
  int64_t kv_bytes = 0;  // of one sequence in all: 2 x layers x kv_heads x head_dim x positions x
                         // bytes of a value
  std::vector<int64_t> kv_bytes_per_rank;  // the same with each rank's heads
  // Whole sequences that fit the memory of every rank, where memory was given. The cache is handed
  // out in blocks of 16 positions, so each sequence counts with its last block whole.
  std::optional<int64_t> sequences;
};

// Pure arithmetic. InvalidArgument naming the number and its limit when one is zero or negative,
// heads do not divide, ranks do not cover the heads, the dtype is none of a KV cache, or the bytes
// exceed 2^63 - 1.
absl::StatusOr<KvBudget> ComputeKvBudget(const KvBudgetRequest& request);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_KV_BUDGET_H_
