#ifndef HEADWAY_RUNTIME_ENGINE_TRACE_RECORDER_H_
#define HEADWAY_RUNTIME_ENGINE_TRACE_RECORDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/model/forward.h"
#include "runtime/request/token_sink.h"

namespace headway {

// Takes the digests of a step that `headway verify` compares: of the residual row after each layer,
// and of the logits. Used only for steps in which a sequence asked for a trace, since it reads
// every row once more.
class TraceRecorder : public LayerObserver {
 public:
  void Begin(int rows, int layers);
  void OnLayer(int layer, const float* residual, int stride, int rows) override;

  // Digests of one row of the last step; `logits` may be empty.
  PositionTrace Take(int row, int position, std::span<const float> logits) const;

  // [hidden] of the residual; set once.
  explicit TraceRecorder(int hidden) : hidden_(hidden) {}

 private:
  int hidden_;
  int rows_ = 0;
  int layers_ = 0;
  std::vector<uint64_t> digests_;  // [layers][rows]
};

uint64_t FloatDigest(std::span<const float> values);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_ENGINE_TRACE_RECORDER_H_
