#ifndef HEADWAY_RUNTIME_EXPERIMENT_VERIFY_WORK_H_
#define HEADWAY_RUNTIME_EXPERIMENT_VERIFY_WORK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/engine/rank_engine.h"

namespace headway {

// The work of the step that computes the token at `position`, counted while it ran.
struct StepWork {
  int position = 0;
  int64_t projections = 0;    // K/V projections of a token, in each layer
  int64_t attended_keys = 0;  // (query, key) pairs, in each layer and head
};

struct WorkTable {
  // Projections of five tokens at once, and of a sixth after them.
  int64_t five_cached = 0, five_uncached = 0, sixth_cached = 0, sixth_uncached = 0;
  std::vector<StepWork> cached;    // linear in the position, so quadratic in all
  std::vector<StepWork> uncached;  // quadratic in the position, so cubic in all
};

// Runs `tokens` one step at a time, once with the cache and once recomputing everything each step,
// and counts. `tokens`: at least 6. One entry a step at positions 5, 10, 20, 40, ... below
// tokens.size().
absl::StatusOr<WorkTable> CountWork(const Checkpoint& checkpoint, EngineOptions options,
                                    const std::vector<int32_t>& tokens);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_EXPERIMENT_VERIFY_WORK_H_
