#include "kernels/cpu/workspace.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace headway::kernels::cpu {
namespace {

// Tokens are cut into splits only where whole ones would leave threads idle.
constexpr int kSplitUnitsPerThread = 4;
// Longer sequences are not cut: their states would not pay their memory.
constexpr int kMaxSplits = 4096;

absl::Status Within(const char* what, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("workspace: ", what, " is ", value, ", outside [", least, ", ", most, "]"));
}

absl::Status Fits(const char* op, const char* what, int64_t value, int64_t most) {
  if (value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(op, ": ", what, " is ", value, ", but the workspace was sized for ", most));
}

// Hands out 64-byte aligned pieces of one buffer; without a buffer it only counts.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}
  template <class T>
  T* Take(int64_t count) {
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Workspace>> CpuWorkspace::Create(const WorkspaceLimits& limits,
                                                                int threads) {
  HEADWAY_RETURN_IF_ERROR(Within("threads", threads, 1, ThreadTeam::kMaxThreads));
  HEADWAY_RETURN_IF_ERROR(Within("max_rows", limits.max_rows, 1, 65536));
  HEADWAY_RETURN_IF_ERROR(Within("max_positions", limits.max_positions, 1, 1 << 24));
  HEADWAY_RETURN_IF_ERROR(Within("max_width", limits.max_width, 1, 1 << 20));
  HEADWAY_RETURN_IF_ERROR(Within("query_heads", limits.query_heads, 1, 1024));
  HEADWAY_RETURN_IF_ERROR(Within("head_dim", limits.head_dim, 1, 1024));

  auto workspace = std::unique_ptr<CpuWorkspace>(new CpuWorkspace);
  CpuWorkspace& w = *workspace;
  w.limits_ = limits;
  w.threads_ = threads;
  w.scratch_.resize(threads);
  const int64_t rows = limits.max_rows;
  const int64_t head_dim = limits.head_dim;
  const int64_t padded = PaddedHeadDim(limits.head_dim);
  const int64_t state = StateStride(limits.head_dim);
  const int splits =
      std::min(kMaxSplits, (limits.max_positions + kAttentionSplit - 1) / kAttentionSplit);
  const int64_t split_heads = static_cast<int64_t>(kSplitUnitsPerThread) * threads * kMaxHeadRun;
  w.max_split_states_ = threads == 1 ? 0 : split_heads * splits;
  w.max_items_ = limits.max_rows + kSplitUnitsPerThread * threads * splits;

  auto carve = [&](Carver& c) {
    for (Scratch& s : w.scratch_) {
      s.weights = c.Take<uint8_t>((limits.max_width + 31) / 32 * 32 * int64_t{128});
      s.sums = c.Take<float>(rows * kTileOutputs);
      s.planes = c.Take<float>(rows * 2 * kTileOutputs);
      s.columns = c.Take<float>(rows * kTileOutputs);
      s.keys = c.Take<float>(kAttentionSplit * head_dim);
      s.values = c.Take<float>(kAttentionSplit * padded);
      s.queries = c.Take<float>(kTileRows * head_dim);
      s.scores = c.Take<float>(kTileRows * kAttentionSplit);
      s.split = c.Take<float>(kTileRows * state);
      s.merged = c.Take<float>(kTileRows * state);
    }
    w.slots_ = c.Take<RowSlot>(rows);
    w.attention_rows_ = c.Take<float>(rows * limits.query_heads * head_dim);
    w.split_states_ = c.Take<float>(w.max_split_states_ * state);
  };
  Carver count(nullptr);
  carve(count);
  HEADWAY_ASSIGN_OR_RETURN(w.memory_, HostBuffer::Allocate(count.used()));
  Carver take(w.memory_.data());
  carve(take);
  w.runs_.reserve(limits.query_heads);
  w.items_.reserve(w.max_items_);
  return std::unique_ptr<Workspace>(std::move(workspace));
}

absl::StatusOr<CpuWorkspace*> CpuWorkspace::Of(const char* op, const Stream& stream) {
  auto* workspace = dynamic_cast<CpuWorkspace*>(stream.workspace);
  if (workspace == nullptr || stream.team == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(op, ": the stream has no team, or no workspace of the CPU kernels"));
  }
  HEADWAY_RETURN_IF_ERROR(
      Fits(op, "the number of threads", stream.team->size(), workspace->threads_));
  return workspace;
}

absl::Status CpuWorkspace::CheckRows(const char* op, int rows) const {
  return Fits(op, "the number of rows", rows, limits_.max_rows);
}

absl::Status CpuWorkspace::CheckWidth(const char* op, int width) const {
  return Fits(op, "the number of inputs", width, limits_.max_width);
}

absl::Status CpuWorkspace::CheckHeads(const char* op, int query_heads, int head_dim) const {
  HEADWAY_RETURN_IF_ERROR(Fits(op, "the number of query heads", query_heads, limits_.query_heads));
  return Fits(op, "head_dim", head_dim, limits_.head_dim);
}

absl::Status CpuWorkspace::CheckPositions(const char* op, int64_t positions) const {
  return Fits(op, "the number of positions", positions, limits_.max_positions);
}

}  // namespace headway::kernels::cpu
