#ifndef HEADWAY_RUNTIME_MAIN_VERIFY_ROWS_H_
#define HEADWAY_RUNTIME_MAIN_VERIFY_ROWS_H_

#include <memory>
#include <span>
#include <vector>

#include "runtime/experiment/verify/engine_rows.h"
#include "runtime/main/verify_options.h"

namespace headway {

// The rows of `axes` inside this process (all but kNodes), one axis varied at a time. `base`: what
// they have in common. `checkpoint` outlives them.
std::vector<std::unique_ptr<VerifyRow>> EngineRows(const Checkpoint& checkpoint,
                                                   const LocalGroupOptions& base, int max_degree,
                                                   std::span<const VerifyAxis> axes);

// The product of `axes` instead: each chunk size with and without company, each number of threads,
// kernels and degree. Axes that are not named keep what `base` has.
std::vector<std::unique_ptr<VerifyRow>> EngineProduct(const Checkpoint& checkpoint,
                                                      const LocalGroupOptions& base, int max_degree,
                                                      std::span<const VerifyAxis> axes);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_VERIFY_ROWS_H_
