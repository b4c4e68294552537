#ifndef HEADWAY_RUNTIME_MAIN_BENCH_OPTIONS_H_
#define HEADWAY_RUNTIME_MAIN_BENCH_OPTIONS_H_

#include <vector>

#include "absl/status/status.h"
#include "runtime/main/model_options.h"

namespace headway {

// `headway bench`: prefill and decode speed of one mixed node beside the machine's read bandwidth.
struct BenchMainOptions {
  ModelOptions model;
  int tp = 1;
  std::vector<int> prefill_tokens = {128, 512, 4000};
  std::vector<int> batches = {1, 8, 16};  // sequences decoding at once
  int decode_tokens = 32;                 // steps measured a row
  int short_context = 32;                 // tokens before the measured steps of the batch rows
  int repeats = 3;                        // of each row, after one that warms up
  int long_context = 4000;                // the same of the last row; 0: no such row
  int first_token = 0;                    // above 0: nothing but the way to the token after so many
  bool json = false;                      // one object a row
};

// Prints the table to standard output.
absl::Status RunBench(const BenchMainOptions& options);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_BENCH_OPTIONS_H_
