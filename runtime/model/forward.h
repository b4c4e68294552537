#ifndef HEADWAY_RUNTIME_MODEL_FORWARD_H_
#define HEADWAY_RUNTIME_MODEL_FORWARD_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/ops.h"
#include "runtime/comm/communicator.h"
#include "runtime/model/numerics.h"
#include "runtime/model/shard_plan.h"
#include "runtime/model/weights.h"

namespace headway {

// The paged cache as the forward pass sees it: one view a layer. It never sees the pool.
struct PagedKvView {
  std::span<const kernels::KvLayerView> layers;
};

// Some consecutive positions of one sequence in a batch.
struct BatchSpan {
  std::span<const int32_t> tokens;
  int32_t first_position = 0;
  // Block id of position p at [p / 16]; as far as the last token's position at least.
  std::span<const int32_t> block_table;
  enum class Logits : uint8_t { kNone, kLast, kAll } logits = Logits::kLast;
};

// Told after each layer, on the thread that runs the pass, when that layer's K and V of the batch
// are in the cache and the residual is complete. Must return quickly.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  // residual: [rows, hidden], `stride` floats apart; the same bits on every rank.
  virtual void OnLayer(int layer, const float* residual, int stride, int rows) = 0;
};

struct ForwardLimits {
  int max_rows = 512;        // tokens of one batch
  int max_logit_rows = 512;  // rows of one batch whose logits are wanted
  int max_positions = 0;     // 0: the checkpoint's own limit
};

// One rank's forward pass. Thread-compatible: every rank of the communicator calls Run with the
// same batch.
class Forward {
 public:
  // Everything passed by reference must outlive the result. All buffers are taken here; Run
  // allocates nothing.
  static absl::StatusOr<std::unique_ptr<Forward>> Create(
      const ModelConfig& config, const ShardPlan& plan, const Weights& weights,
      const NumericsOptions& numerics, const ForwardLimits& limits, const kernels::Ops& ops,
      ThreadTeam& team, Communicator& comm);
  virtual ~Forward() = default;

  // Computes the batch, appends K and V to the cache, and leaves logits of the wanted rows, in
  // order, at rank 0. InvalidArgument (token outside the vocabulary, too many rows, position beyond
  // the limit) before anything is written.
  virtual absl::Status Run(std::span<const BatchSpan> batch, const PagedKvView& kv,
                           LayerObserver* observer) = 0;

  // Of the last Run, on rank 0: row i of the wanted rows, [vocabulary].
  virtual std::span<const float> logits(int i) const = 0;
  virtual int logit_rows() const = 0;

  // K/V projections of single tokens done since construction (one per row and layer pass is one per
  // row here: a batch of n rows adds n). What `headway verify` counts.
  virtual int64_t kv_projections() const = 0;
  // (query row, key position) pairs that attention has met since construction, of one head and
  // layer. The work of a step beside the projections.
  virtual int64_t attended_keys() const = 0;
  virtual const ForwardLimits& limits() const = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_FORWARD_H_
