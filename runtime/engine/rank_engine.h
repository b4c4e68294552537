#ifndef HEADWAY_RUNTIME_ENGINE_RANK_ENGINE_H_
#define HEADWAY_RUNTIME_ENGINE_RANK_ENGINE_H_

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/ops.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/communicator.h"
#include "runtime/device/thread_team.h"
#include "runtime/kv/kv_storage.h"
#include "runtime/model/forward.h"

namespace headway {

struct EngineOptions {
  int threads = 1;
  NumericsOptions numerics;
  int kv_blocks = 0;
  ForwardLimits limits;
  const kernels::Ops* ops = nullptr;  // null: the fastest that this processor has
};

// Everything that one rank needs to compute: its weights, its KV memory, its threads and the
// forward pass. It is told what to run and decides nothing.
//
// Thread-compatible: one thread of each rank calls Run, with the same batch on every rank.
class RankEngine {
 public:
  // Loads this rank's slice. `checkpoint`, `comm` (which gives rank and degree) and a custom `ops`
  // must outlive the result. `progress(done, total)` counts layers; may be empty.
  static absl::StatusOr<std::unique_ptr<RankEngine>> Create(
      const Checkpoint& checkpoint, const EngineOptions& options, Communicator& comm,
      std::function<void(int, int)> progress = {});

  absl::Status Run(std::span<const BatchSpan> batch, LayerObserver* observer);

  // Of the last Run, on rank 0: logits of the i-th wanted row, [vocabulary].
  std::span<const float> logits(int i) const { return forward_->logits(i); }
  int logit_rows() const { return forward_->logit_rows(); }

  const ModelConfig& config() const { return config_; }
  const ShardPlan& plan() const { return plan_; }
  const KvStorage& kv() const { return *kv_; }
  // Zeroes a block of this rank's KV cache.
  void ClearBlock(int block) { kv_->Clear(block); }
  const ForwardLimits& limits() const { return forward_->limits(); }
  // Of rank 0; empty elsewhere.
  const std::string& numerics_id() const { return numerics_id_; }
  int64_t kv_projections() const { return forward_->kv_projections(); }
  int64_t attended_keys() const { return forward_->attended_keys(); }
  int64_t weight_bytes() const { return weights_->packed_bytes(); }

 private:
  RankEngine() = default;

  ModelConfig config_;
  ShardPlan plan_;
  std::string numerics_id_;
  std::unique_ptr<ThreadTeam> team_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<KvStorage> kv_;
  std::unique_ptr<Forward> forward_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_ENGINE_RANK_ENGINE_H_
