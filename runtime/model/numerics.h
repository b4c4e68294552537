#ifndef HEADWAY_RUNTIME_MODEL_NUMERICS_H_
#define HEADWAY_RUNTIME_MODEL_NUMERICS_H_

#include <cstdint>
#include <string>

#include "kernels/activations.h"
#include "runtime/model/model_config.h"

namespace headway {

// The choices that decide bits beside the checkpoint.
struct NumericsOptions {
  DType kv_dtype = DType::kF16;  // kF16, kBF16, kF32
  kernels::ActivationFormat activations = kernels::ActivationFormat::kF32;
};

// q8 where the checkpoint's linears are quantised, else f32.
kernels::ActivationFormat DefaultActivations(const Checkpoint& checkpoint,
                                             const ModelConfig& config);

// What the numerics ids of a checkpoint begin with. Reads the whole checkpoint, once.
std::string CheckpointId(const Checkpoint& checkpoint);

// Names what two nodes must share to give the same bits: CheckpointId, activations, KV dtype,
// kernel version. E.g. "3f6c...-q8-f16-cpu-1".
std::string NumericsId(const Checkpoint& checkpoint, const NumericsOptions& options);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_NUMERICS_H_
