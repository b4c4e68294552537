#include "kernels/reference/reference_ops.h"

#include "absl/strings/str_cat.h"
#include "runtime/device/float_environment.h"

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

// The op in the default float environment, as the teams of the other backends run theirs.
template <class Params, absl::Status (*kOp)(const Params&, Stream&)>
absl::Status InDefaultEnvironment(const Params& params, Stream& stream) {
  const DefaultFloatEnvironment environment;
  return kOp(params, stream);
}

}  // namespace

const Ops& ReferenceOps() {
  static constexpr Ops kOps = {
      .name = "reference",
      .NewWorkspace = NewWorkspace,
      .Embedding = InDefaultEnvironment<EmbeddingParams, reference::Embedding>,
      .RmsNorm = InDefaultEnvironment<RmsNormParams, reference::RmsNorm>,
      .Qkv = InDefaultEnvironment<QkvParams, reference::Qkv>,
      .Attention = InDefaultEnvironment<AttentionParams, reference::Attention>,
      .RowParallel = InDefaultEnvironment<RowParallelParams, reference::RowParallel>,
      .RowParallelResidual =
          InDefaultEnvironment<RowParallelResidualParams, reference::RowParallelResidual>,
      .GateUp = InDefaultEnvironment<GateUpParams, reference::GateUp>,
      .Logits = InDefaultEnvironment<LogitsParams, reference::Logits>,
  };
  return kOps;
}

}  // namespace headway::kernels
