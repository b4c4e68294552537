#ifndef HEADWAY_RUNTIME_MAIN_OUTPUT_H_
#define HEADWAY_RUNTIME_MAIN_OUTPUT_H_

#include "absl/status/status.h"

namespace headway {

// Writes out what standard output still holds. DataLoss when that, or anything before it, could not
// be written: what was printed is not whole.
absl::Status FinishOutput();

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_OUTPUT_H_
