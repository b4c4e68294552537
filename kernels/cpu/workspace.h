#ifndef HEADWAY_KERNELS_CPU_WORKSPACE_H_
#define HEADWAY_KERNELS_CPU_WORKSPACE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cpu/table.h"
#include "kernels/ops.h"
#include "runtime/device/host_buffer.h"

namespace headway::kernels::cpu {

// Query heads [first, first + count) of one KV head, at most kMaxHeadRun of them.
struct HeadRun {
  int first;
  int count;
  int kv_head;
};

// Some rows of one span, to be crossed with the head runs; or one split of a span of one row.
struct AttentionItem {
  int span;
  int first;  // row within the span
  int rows;
  int split;     // -1: all of them
  int token;     // where split >= 0: which of the tokens that are cut into splits
  int64_t cost;  // keys times rows
};

// The CPU kernels' memory, for one forward pass. Everything is taken at creation.
class CpuWorkspace final : public Workspace {
 public:
  static absl::StatusOr<std::unique_ptr<Workspace>> Create(const WorkspaceLimits& limits,
                                                           int threads);

  // The workspace of `stream`; InvalidArgument naming the op where it is of another kind or has too
  // few threads.
  static absl::StatusOr<CpuWorkspace*> Of(const char* op, const Stream& stream);

  // InvalidArgument naming the op when a value is beyond what the workspace was sized for.
  absl::Status CheckRows(const char* op, int rows) const;
  absl::Status CheckWidth(const char* op, int width) const;
  absl::Status CheckHeads(const char* op, int query_heads, int head_dim) const;
  absl::Status CheckPositions(const char* op, int64_t positions) const;

  const Scratch& scratch(int thread) const { return scratch_[thread]; }

  // [max_rows]
  RowSlot* slots() const { return slots_; }
  // [max_rows][query_heads * head_dim]: attention's results where they cannot be quantised by head.
  float* attention_rows() const { return attention_rows_; }
  // States of tokens cut into splits, `max_split_states` of them, StateStride() floats apart.
  float* split_states() const { return split_states_; }
  int64_t max_split_states() const { return max_split_states_; }
  std::vector<HeadRun>& runs() { return runs_; }
  std::vector<AttentionItem>& items() { return items_; }
  int max_items() const { return max_items_; }

 private:
  CpuWorkspace() = default;

  WorkspaceLimits limits_;
  int threads_ = 0;
  HostBuffer memory_;
  std::vector<Scratch> scratch_;
  RowSlot* slots_ = nullptr;
  float* attention_rows_ = nullptr;
  float* split_states_ = nullptr;
  int64_t max_split_states_ = 0;
  int max_items_ = 0;
  std::vector<HeadRun> runs_;
  std::vector<AttentionItem> items_;
};

inline KvLayer KvLayerOf(const KvLayerView& view) {
  return {
      .dtype = view.dtype,
      .head_dim = view.head_dim,
      .base = view.base,
      .head_stride = view.RunBytes(),
      .block_stride = view.BlockStride(),
      .value_offset = view.HalfRunBytes(),
  };
}

constexpr int PaddedHeadDim(int head_dim) { return (head_dim + 15) / 16 * 16; }
constexpr int64_t StateStride(int head_dim) { return kStateOut + PaddedHeadDim(head_dim); }

}  // namespace headway::kernels::cpu

#endif  // HEADWAY_KERNELS_CPU_WORKSPACE_H_
