#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/ops.h"
#include "kernels/ops.h"
#include "runtime/base/strings.h"

namespace headway::kernels {

std::vector<const Ops*> SupportedCpuOps() { return cpu::SupportedOps(); }

const Ops& BestCpuOps() { return *SupportedCpuOps().front(); }

absl::StatusOr<const Ops*> FindOps(std::string_view name) {
  std::vector<const Ops*> known = SupportedCpuOps();
  known.push_back(&ReferenceOps());
  std::string names;
  for (const Ops* ops : known) {
    if (name == ops->name) return ops;
    absl::StrAppend(&names, names.empty() ? "" : ", ", ops->name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no kernels are named \"", ToAbsl(name), "\"; this processor runs: ", names));
}

}  // namespace headway::kernels
