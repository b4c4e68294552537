#ifndef HEADWAY_RUNTIME_EXPERIMENT_VERIFY_VERIFY_H_
#define HEADWAY_RUNTIME_EXPERIMENT_VERIFY_VERIFY_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/experiment/verify/row.h"

namespace headway {

// What became of one row.
struct RowOutcome {
  std::string name;
  int tokens = 0;
  int positions = 0;
  double seconds = 0;
  absl::Status status;                   // why it could not run
  std::optional<Difference> difference;  // from the first row
  bool equal() const { return status.ok() && !difference.has_value(); }
};

// Runs the rows in order and compares each with the first one. `report` is told of each as it ends.
// OK when all agree in every token and in the bits of every layer and all logits; else
// FailedPrecondition naming the first row that does not, position and layer.
absl::Status Verify(const VerifyCase& request, const std::vector<std::unique_ptr<VerifyRow>>& rows,
                    const std::function<void(const RowOutcome&)>& report);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_EXPERIMENT_VERIFY_VERIFY_H_
