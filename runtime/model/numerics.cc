#include "runtime/model/numerics.h"

#include "absl/strings/str_format.h"
#include "kernels/ops.h"
#include "runtime/base/strings.h"
#include "runtime/model/families/family.h"

namespace headway {

kernels::ActivationFormat DefaultActivations(const Checkpoint& checkpoint,
                                             const ModelConfig& config) {
  const absl::StatusOr<const Family*> family = FindFamily(config.family);
  if (!family.ok()) return kernels::ActivationFormat::kF32;
  const TensorNames& names = (*family)->form(checkpoint.kind()).tensors;
  for (int layer = 0; layer < config.layers; ++layer) {
    for (const std::string_view tensor :
         {names.q, names.k, names.v, names.attention_output, names.gate, names.up, names.down}) {
      const auto ref = checkpoint.Tensor(names.Layer(layer, tensor, ".weight"));
      if (ref.ok() && IsQuantised(ref->dtype)) return kernels::ActivationFormat::kQ8;
    }
  }
  return kernels::ActivationFormat::kF32;
}

std::string CheckpointId(const Checkpoint& checkpoint) {
  return absl::StrFormat("%016x", checkpoint.digest());
}

std::string NumericsId(const Checkpoint& checkpoint, const NumericsOptions& options) {
  return absl::StrFormat("%s-%s-%s-%s", CheckpointId(checkpoint),
                         options.activations == kernels::ActivationFormat::kQ8 ? "q8" : "f32",
                         ToAbsl(DTypeName(options.kv_dtype)), ToAbsl(kernels::kCpuKernelVersion));
}

}  // namespace headway
