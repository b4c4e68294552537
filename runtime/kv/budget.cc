#include "runtime/kv/budget.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/kv_layer_view.h"
#include "runtime/base/status.h"

namespace headway {
namespace {

absl::Status CheckPositive(const char* name, int64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; it must be at least 1"));
}

absl::Status CheckRequest(const KvBudgetRequest& request) {
  HEADWAY_RETURN_IF_ERROR(CheckPositive("the number of layers", request.layers));
  HEADWAY_RETURN_IF_ERROR(CheckPositive("the number of heads", request.query_heads));
  HEADWAY_RETURN_IF_ERROR(CheckPositive("the number of KV heads", request.kv_heads));
  HEADWAY_RETURN_IF_ERROR(CheckPositive("the head dimension", request.head_dim));
  HEADWAY_RETURN_IF_ERROR(CheckPositive("the number of positions", request.positions));
  if (request.memory_bytes) {
    HEADWAY_RETURN_IF_ERROR(CheckPositive("the memory in bytes", *request.memory_bytes));
  }
  if (request.query_heads % request.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.query_heads, " heads are not a multiple of ", request.kv_heads,
                     " KV heads; each KV head serves the same number of heads"));
  }
  HEADWAY_RETURN_IF_ERROR(CheckKvDType(request.dtype));
  // Each rank holds a run of KV heads, so ranks that cover them all hold at least as many. Counted
  // down, as a sum could overflow.
  int64_t uncovered = request.kv_heads_per_rank.empty() ? 0 : request.kv_heads;
  for (const int64_t heads : request.kv_heads_per_rank) {
    if (heads < 1 || heads > request.kv_heads) {
      return absl::InvalidArgumentError(absl::StrCat("a rank with ", heads, " of ",
                                                     request.kv_heads,
                                                     " KV heads; each rank stores at least 1"));
    }
    uncovered -= std::min(uncovered, heads);
  }
  if (uncovered > 0) {
    return absl::InvalidArgumentError(absl::StrCat("the ranks store too few KV heads: ", uncovered,
                                                   " of ", request.kv_heads, " are on none"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Bytes(const KvBudgetRequest& request, int64_t kv_heads, int64_t positions) {
  int64_t bytes = 2 * BlockBytes(request.dtype);
  for (const int64_t factor : {request.layers, kv_heads, request.head_dim, positions}) {
    if (__builtin_mul_overflow(bytes, factor, &bytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "2 x ", request.layers, " layers x ", kv_heads, " KV heads x ", request.head_dim, " x ",
          positions, " positions x ", BlockBytes(request.dtype), " bytes exceeds 2^63 - 1"));
    }
  }
  return bytes;
}

}  // namespace

absl::Status CheckKvDType(DType dtype) {
  if (dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("the KV cache cannot be of type ",
                                                 std::string(DTypeName(dtype)),
                                                 "; it can be f16, bf16 or f32"));
}

absl::StatusOr<KvBudget> ComputeKvBudget(const KvBudgetRequest& request) {
  HEADWAY_RETURN_IF_ERROR(CheckRequest(request));
  KvBudget budget;
  HEADWAY_ASSIGN_OR_RETURN(budget.kv_bytes, Bytes(request, request.kv_heads, request.positions));

  std::vector<int64_t> heads_per_rank = request.kv_heads_per_rank;
  if (heads_per_rank.empty()) heads_per_rank = {request.kv_heads};
  for (const int64_t heads : heads_per_rank) {
    HEADWAY_ASSIGN_OR_RETURN(const int64_t bytes, Bytes(request, heads, request.positions));
    budget.kv_bytes_per_rank.push_back(bytes);
  }
  if (!request.memory_bytes) return budget;

  // The rank with the most heads is full first.
  const int64_t most_heads = *std::max_element(heads_per_rank.begin(), heads_per_rank.end());
  constexpr int64_t kTokens = kernels::kKvBlockTokens;
  const int64_t blocks = request.positions / kTokens + (request.positions % kTokens != 0);
  HEADWAY_ASSIGN_OR_RETURN(const int64_t block_bytes, Bytes(request, most_heads, kTokens));
  budget.sequences = *request.memory_bytes / block_bytes / blocks;
  return budget;
}

}  // namespace headway
