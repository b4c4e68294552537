// `headway bench`: the engine's speed beside the machine's read bandwidth, as a table.
#include <cstdio>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/experiment/bench/engine_bench.h"
#include "runtime/main/bench_options.h"
#include "runtime/main/node_setup.h"

namespace headway {
namespace {

void PrintRow(const BenchRow& row, bool json) {
  const double share = row.read_bandwidth > 0 ? row.bytes_per_second / row.read_bandwidth : 0;
  if (json) {
    const nlohmann::ordered_json object = {{"work", row.work},
                                           {"tokens_per_second", row.tokens_per_second},
                                           {"best_tokens_per_second", row.best_tokens_per_second},
                                           {"step_ms", row.step_ms},
                                           {"weight_bytes_per_second", row.weight_bytes_per_second},
                                           {"bytes_per_second", row.bytes_per_second},
                                           {"read_bandwidth", row.read_bandwidth},
                                           {"share_of_bandwidth", share}};
    std::printf("%s\n", object.dump().c_str());
  } else {
    std::printf("%s\n", absl::StrFormat("%-36s %10.1f %10.1f %10.2f %12.2f %12.2f %9.0f %%",
                                        row.work, row.tokens_per_second, row.best_tokens_per_second,
                                        row.step_ms, row.weight_bytes_per_second / 1e9,
                                        row.bytes_per_second / 1e9, share * 100)
                            .c_str());
  }
  std::fflush(stdout);
}

}  // namespace

absl::Status RunBench(const BenchMainOptions& options) {
  HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                           Checkpoint::Open(options.model.model));
  HEADWAY_ASSIGN_OR_RETURN(const NodeSetup setup,
                           SettleNode(*checkpoint, options.model, options.tp, {}));
  EngineBenchOptions bench;
  bench.degree = options.tp;
  bench.engine = setup.Engine();
  bench.prefill_tokens = options.prefill_tokens;
  bench.batches = options.batches;
  bench.decode_tokens = options.decode_tokens;
  bench.short_context = options.short_context;
  bench.long_context = options.long_context;
  bench.repeats = options.repeats;
  std::fprintf(stderr, "headway bench: %d rank(s) of %d thread(s), kernels %s\n", options.tp,
               setup.threads, setup.ops != nullptr ? setup.ops->name : kernels::BestCpuOps().name);
  if (options.first_token > 0) {
    HEADWAY_ASSIGN_OR_RETURN(const double seconds,
                             MeasureFirstToken(*checkpoint, bench, options.first_token));
    if (options.json) {
      const nlohmann::ordered_json object = {{"work", "first token"}, {"seconds", seconds}};
      std::printf("%s\n", object.dump().c_str());
    } else {
      std::printf("load, %d prompt tokens, first token: %.0f ms\n", options.first_token,
                  seconds * 1e3);
    }
    return absl::OkStatus();
  }
  bool first = true;
  return RunEngineBench(*checkpoint, bench, [&](const BenchRow& row) {
    if (first && !options.json) {
      std::printf("read bandwidth of this machine with as many threads: %.2f GB/s\n\n",
                  row.read_bandwidth / 1e9);
      std::printf("%-36s %10s %10s %10s %12s %12s %11s\n", "work", "tokens/s", "best", "ms/step",
                  "weights GB/s", "with KV GB/s", "of bandwidth");
    }
    first = false;
    PrintRow(row, options.json);
  });
}

}  // namespace headway
