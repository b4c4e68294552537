#ifndef HEADWAY_RUNTIME_MODEL_ROPE_TABLE_H_
#define HEADWAY_RUNTIME_MODEL_ROPE_TABLE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "kernels/linear.h"
#include "runtime/device/host_buffer.h"
#include "runtime/model/model_config.h"

namespace headway {

// Radians per position of each pair of dimensions, [head_dim / 2]: theta^(-2i / head_dim), scaled
// as `rope` says. float64, from + - * / and kernels/fixed_math.h alone, so the same bits on every
// machine.
std::vector<double> RopeFrequencies(const RopeConfig& rope, int head_dim);

// The cosines and sines of positions [0, max_positions) in the layout that kernels read
// (kernels/linear.h), computed in float64 and rounded once. Owns its memory.
class RopeTableBuffer {
 public:
  static absl::StatusOr<RopeTableBuffer> Create(const RopeConfig& rope, int head_dim,
                                                int max_positions);
  const kernels::RopeTable& view() const { return view_; }

 private:
  RopeTableBuffer() = default;
  HostBuffer memory_;
  kernels::RopeTable view_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_ROPE_TABLE_H_
