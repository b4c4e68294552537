#ifndef HEADWAY_RUNTIME_EXPERIMENT_BENCH_ENGINE_BENCH_H_
#define HEADWAY_RUNTIME_EXPERIMENT_BENCH_ENGINE_BENCH_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/engine/rank_engine.h"

namespace headway {

// What to measure, on one mixed group of `degree` ranks (threads of this process) without any
// server around it.
struct EngineBenchOptions {
  int degree = 1;
  EngineOptions engine;  // KV blocks and limits are set by the benchmark
  std::vector<int> prefill_tokens;
  std::vector<int> batches;
  int decode_tokens = 32;   // steps measured a row
  int short_context = 32;   // tokens before the measured steps of the batch rows
  int long_context = 4000;  // 0: no such row
  int repeats = 3;
};

struct BenchRow {
  std::string work;              // "prefill 512", "decode, 8 sequences", "decode after 4000 tokens"
  double tokens_per_second = 0;  // median
  double best_tokens_per_second = 0;
  double step_ms = 0;                  // median of a step (decode) or of the whole prompt (prefill)
  double weight_bytes_per_second = 0;  // weights read, once a step
  double bytes_per_second = 0;         // with the KV cache
  double read_bandwidth = 0;  // the machine's own, bytes a second, measured in the same run
};

// Runs every row and tells `report` of each as it ends. Rows that the model's positions cannot hold
// are left out, which a warning in the log tells.
absl::Status RunEngineBench(const Checkpoint& checkpoint, const EngineBenchOptions& options,
                            const std::function<void(const BenchRow&)>& report);

// Loads the model, computes a prompt of `tokens` and returns how many seconds both took together:
// the way of a process to its first token. Prefill lengths, batches and contexts do not count.
absl::StatusOr<double> MeasureFirstToken(const Checkpoint& checkpoint,
                                         const EngineBenchOptions& options, int tokens);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_EXPERIMENT_BENCH_ENGINE_BENCH_H_
