#ifndef HEADWAY_RUNTIME_MAIN_VERIFY_OPTIONS_H_
#define HEADWAY_RUNTIME_MAIN_VERIFY_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "runtime/main/model_options.h"

namespace headway {

// What rows vary, in the order in which they run, after the row without a cache.
enum class VerifyAxis { kChunks, kBatch, kThreads, kKernels, kDegrees, kNodes };
struct NamedVerifyAxis {
  VerifyAxis axis;
  const char* name;
};
inline constexpr NamedVerifyAxis kVerifyAxes[] = {
    {VerifyAxis::kChunks, "chunks"},   {VerifyAxis::kBatch, "batch"},
    {VerifyAxis::kThreads, "threads"}, {VerifyAxis::kKernels, "kernels"},
    {VerifyAxis::kDegrees, "degrees"}, {VerifyAxis::kNodes, "nodes"}};

// `headway verify`: the contract, checked on this machine and checkpoint.
struct VerifyMainOptions {
  ModelOptions model;
  int prompt_tokens =
      270;  // past one attention split of 256; chunks of 64 and blocks of 16 end cut short
  int max_tokens = 12;  // output tokens a row
  int max_degree = 3;   // rows at degrees 1 up to this
  uint64_t seed = 7;
  // What rows vary; one at a time, or, with `full`, the product of those inside one process.
  std::vector<VerifyAxis> axes = {VerifyAxis::kChunks,  VerifyAxis::kBatch,   VerifyAxis::kThreads,
                                  VerifyAxis::kKernels, VerifyAxis::kDegrees, VerifyAxis::kNodes};
  bool full = false;
  bool json = false;  // one object a row
};

// Prints the table to standard output. FailedPrecondition, naming the first differing row, position
// and layer, when any row differs.
absl::Status RunVerify(const VerifyMainOptions& options);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_VERIFY_OPTIONS_H_
