#ifndef HEADWAY_RUNTIME_EXPERIMENT_BENCH_READ_BANDWIDTH_H_
#define HEADWAY_RUNTIME_EXPERIMENT_BENCH_READ_BANDWIDTH_H_

#include "absl/status/statusor.h"

namespace headway {

// Bytes a second that `threads` threads together read from memory: the best of five passes over a
// buffer far larger than the caches, one word of each cache line. The floor of decoding: no token
// needs fewer bytes than the weights.
absl::StatusOr<double> MeasureReadBandwidth(int threads);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_EXPERIMENT_BENCH_READ_BANDWIDTH_H_
