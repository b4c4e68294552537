#include "kernels/reference/reference_ops.h"

#include "absl/strings/str_cat.h"

namespace headway::kernels {
namespace {

// The reference takes its memory as it goes.
class NoWorkspace final : public Workspace {};

absl::StatusOr<std::unique_ptr<Workspace>> NewWorkspace(const WorkspaceLimits&, int threads) {
  if (threads < 1) {
    return absl::InvalidArgumentError(absl::StrCat("workspace: ", threads, " threads, below 1"));
  }
  return std::make_unique<NoWorkspace>();
}

}  // namespace

const Ops& ReferenceOps() {
  static constexpr Ops kOps = {
      .name = "reference",
      .NewWorkspace = NewWorkspace,
      .Embedding = reference::Embedding,
      .RmsNorm = reference::RmsNorm,
      .Qkv = reference::Qkv,
      .Attention = reference::Attention,
      .RowParallel = reference::RowParallel,
      .RowParallelResidual = reference::RowParallelResidual,
      .GateUp = reference::GateUp,
      .Logits = reference::Logits,
  };
  return kOps;
}

}  // namespace headway::kernels
