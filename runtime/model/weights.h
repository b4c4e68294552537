#ifndef HEADWAY_RUNTIME_MODEL_WEIGHTS_H_
#define HEADWAY_RUNTIME_MODEL_WEIGHTS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/linear.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/model/shard_plan.h"

namespace headway {

// One rank's packed weights of one layer. Views into the owner's memory.
struct LayerWeights {
  const float* attention_norm = nullptr;         // [hidden]
  kernels::PackedLinear q, k, v;                 // rows of the local heads
  kernels::PackedLinear attention_output;        // all outputs, inputs of the local query heads
  const float* attention_output_bias = nullptr;  // [hidden] or null; added once, after the tree
  const float* mlp_norm = nullptr;
  kernels::PackedLinear gate_up;  // local columns
  kernels::PackedLinear down;     // all outputs, inputs of the local columns
  const float* down_bias = nullptr;
};

// One rank's slice of a checkpoint, packed for the CPU kernels; reads only that slice of the file.
class Weights {
 public:
  // `progress(done, total)` in layers; may be empty. Errors name the tensor, its shape and the
  // wanted shape. The checkpoint must outlive the result (the embedding table is read in place).
  static absl::StatusOr<std::unique_ptr<Weights>> Load(const Checkpoint& checkpoint,
                                                       const ModelConfig& config,
                                                       const ShardPlan& plan, int rank,
                                                       std::function<void(int, int)> progress = {});
  virtual ~Weights() = default;
  virtual const LayerWeights& layer(int i) const = 0;
  virtual const TensorRef& embedding() const = 0;  // [vocabulary, hidden], whole, in the file
  virtual const float* final_norm() const = 0;
  virtual const kernels::PackedLinear& lm_head() const = 0;  // local vocabulary rows
  virtual int64_t packed_bytes() const = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_WEIGHTS_H_
