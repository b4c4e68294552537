#ifndef HEADWAY_RUNTIME_MODEL_ROPE_CONFIG_H_
#define HEADWAY_RUNTIME_MODEL_ROPE_CONFIG_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/model/model_config.h"

namespace headway {

// The rotary settings of config.json, in the newer form (`rope_parameters` holds all of them) or
// the older one (`rope_theta`, and `rope_scaling` with `rope_type` or `type`).
// InvalidArgument naming key and value for a kind or a number that cannot be served, e.g. dynamic
// and longrope scaling, whose logits at a position depend on how long the sequence will be.
absl::StatusOr<RopeConfig> ReadHuggingFaceRope(const Metadata& metadata, int max_positions);

// The same from GGUF: `<architecture>.rope.*`, and the tensor rope_freqs.weight where there is one.
absl::StatusOr<RopeConfig> ReadGgufRope(const Checkpoint& checkpoint, std::string_view architecture,
                                        int head_dim, int max_positions);

// What yarn multiplies cos and sin with where a checkpoint does not say: 0.1 mscale ln(factor) + 1.
double YarnMagnitude(double factor, double mscale);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_ROPE_CONFIG_H_
