#include "runtime/engine/trace_recorder.h"

#include "runtime/base/check.h"
#include "runtime/base/hash.h"

namespace headway {

uint64_t FloatDigest(std::span<const float> values) { return Hash64(std::as_bytes(values)); }

void TraceRecorder::Begin(int rows, int layers) {
  rows_ = rows;
  layers_ = layers;
  digests_.assign(static_cast<size_t>(rows) * layers, 0);
}

void TraceRecorder::OnLayer(int layer, const float* residual, int stride, int rows) {
  HEADWAY_CHECK(rows == rows_ && layer < layers_);
  for (int row = 0; row < rows; ++row) {
    digests_[static_cast<size_t>(layer) * rows_ + row] =
        FloatDigest({residual + static_cast<int64_t>(row) * stride, static_cast<size_t>(hidden_)});
  }
}

PositionTrace TraceRecorder::Take(int row, int position, std::span<const float> logits) const {
  PositionTrace trace;
  trace.position = position;
  trace.layers.reserve(layers_);
  for (int layer = 0; layer < layers_; ++layer) {
    trace.layers.push_back(digests_[static_cast<size_t>(layer) * rows_ + row]);
  }
  trace.logits = logits.empty() ? 0 : FloatDigest(logits);
  return trace;
}

}  // namespace headway
