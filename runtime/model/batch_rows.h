#ifndef HEADWAY_RUNTIME_MODEL_BATCH_ROWS_H_
#define HEADWAY_RUNTIME_MODEL_BATCH_ROWS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/kv_layer_view.h"
#include "runtime/model/forward.h"

namespace headway {

// A batch as kernels take it: one row a token, the rows of a span next to each other, spans in
// order. Sized once; Assign allocates nothing.
class BatchRows {
 public:
  // `limits` with max_positions resolved.
  BatchRows(const ForwardLimits& limits, int vocabulary);

  // InvalidArgument naming span, value and limit, and nothing is changed: an empty batch or span,
  // too many rows, a token outside the vocabulary, a position beyond the limit, a block table
  // that is too short, or a block outside [0, num_blocks).
  absl::Status Assign(std::span<const BatchSpan> batch, int64_t num_blocks);

  int rows() const { return static_cast<int>(tokens_.size()); }
  std::span<const int32_t> tokens() const { return tokens_; }
  std::span<const kernels::SpanView> spans() const { return spans_; }
  // Rows whose logits are wanted, ascending.
  std::span<const int32_t> wanted() const { return wanted_; }

 private:
  absl::Status Check(std::span<const BatchSpan> batch, int64_t num_blocks) const;

  const ForwardLimits limits_;
  const int vocabulary_;
  std::vector<int32_t> tokens_;
  std::vector<kernels::SpanView> spans_;
  std::vector<int32_t> wanted_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_BATCH_ROWS_H_
