#ifndef HEADWAY_RUNTIME_MODEL_LOGITS_OUTPUT_H_
#define HEADWAY_RUNTIME_MODEL_LOGITS_OUTPUT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/ops.h"
#include "runtime/comm/communicator.h"
#include "runtime/device/host_buffer.h"
#include "runtime/model/shard_plan.h"

namespace headway {

// Where logits come together: each rank computes its slice of the vocabulary, rank 0 gets all rows
// whole. With one rank the LM head writes them in place; with more, they cross some rows at a time.
// Owns the memory of the logits.
class LogitsOutput {
 public:
  // Both must outlive this object.
  LogitsOutput(const ShardPlan& plan, Communicator& comm) : plan_(plan), comm_(comm) {}
  absl::Status Allocate(int vocabulary, int max_rows);

  // Logits of `rows` rows of `input`, normed and in order. Collective.
  absl::Status Compute(const kernels::Ops& ops, kernels::Stream& stream,
                       const kernels::PackedLinear& lm_head, const kernels::Activations& input,
                       int rows);

  // On rank 0: row i of the last Compute, [vocabulary].
  std::span<const float> row(int i) const {
    return {logits_.As<float>() + i * int64_t{stride_}, static_cast<size_t>(vocabulary_)};
  }

 private:
  absl::Status Gather(int first_row, int rows);

  const ShardPlan& plan_;
  Communicator& comm_;
  int vocabulary_ = 0;
  int stride_ = 0;                     // floats between rows of the logits
  HostBuffer logits_;                  // rank 0: [max rows, vocabulary]
  HostBuffer slice_;                   // [chunk, local vocabulary]
  HostBuffer gathered_;                // rank 0: the slices of all ranks
  std::vector<int> slice_strides_;     // floats between rows of each rank's slice
  std::vector<int64_t> gather_sizes_;  // scratch of Gather
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_LOGITS_OUTPUT_H_
