#ifndef HEADWAY_RUNTIME_SCHED_ADMISSION_H_
#define HEADWAY_RUNTIME_SCHED_ADMISSION_H_

#include <cstdint>

#include "absl/status/status.h"

namespace headway {

// How much may wait. A queue bounded by both count and tokens cannot grow without limit with
// either.
struct QueueLimits {
  int max_waiting = 256;
  int64_t max_waiting_tokens = 1 << 20;
  // Sequences under way at once. 0: as many as can decode in one step (the node knows).
  int max_running = 0;
};

struct AdmissionSnapshot {
  int capacity_blocks = 0;
  int free_blocks = 0;
  int running = 0;
  int waiting = 0;
  int64_t waiting_tokens = 0;
};

// May a request of `blocks` and `tokens` enter the queue? ResourceExhausted with both numbers when
// it could never fit, or (with a RetryDelaySeconds) when the queue is full. Pure.
absl::Status DecideEnqueue(const AdmissionSnapshot& snapshot, const QueueLimits& limits, int blocks,
                           int64_t tokens);

// May the first of the queue start now? It waits for blocks or for a place; nobody overtakes it, so
// a large request is not starved by small ones.
bool DecideStart(const AdmissionSnapshot& snapshot, const QueueLimits& limits, int blocks);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_SCHED_ADMISSION_H_
