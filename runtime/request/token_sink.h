#ifndef HEADWAY_RUNTIME_REQUEST_TOKEN_SINK_H_
#define HEADWAY_RUNTIME_REQUEST_TOKEN_SINK_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "runtime/request/sampling_params.h"

namespace headway {

// Digests of one computed position, to compare bits across topologies. Filled only when a request
// asks for a trace.
struct PositionTrace {
  int32_t position = 0;
  std::vector<uint64_t> layers;  // of the residual stream after each layer
  uint64_t logits = 0;           // of the float32 logits; 0 where none were computed
};

// One output token, as a node gives it.
struct TokenEvent {
  int32_t index = 0;  // of the output tokens, from 0
  int32_t token = 0;
  struct Alternative {
    int32_t token;
    float logprob;
  };
  float logprob = 0;             // meaningful when the request asked for log-probabilities
  std::vector<Alternative> top;  // likewise
  FinishReason finish = FinishReason::kNone;  // with the last token
  std::vector<PositionTrace> trace;           // positions computed since the last event
};

// Where a sequence's tokens go. Implemented by those who called; tokens return through it.
// Calls for one sequence come from one thread at a time, OnToken in order, then exactly one OnDone;
// none may block.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void OnToken(TokenEvent event) = 0;
  // OK after the last token. After this call the sink is not touched again.
  virtual void OnDone(const absl::Status& status) = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_REQUEST_TOKEN_SINK_H_
