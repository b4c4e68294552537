#ifndef HEADWAY_KERNELS_OPS_H_
#define HEADWAY_KERNELS_OPS_H_

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "runtime/device/thread_team.h"

namespace headway::kernels {

// Upper bounds of what a workspace will be asked for; per rank (local sizes).
struct WorkspaceLimits {
  int max_rows = 0;       // rows of one batch, in [1, 65536]
  int max_positions = 0;  // longest sequence, in [1, 2^24]
  int max_width = 0;      // largest K of a linear
  int max_outputs = 0;    // largest number of outputs of a linear but the LM head
  int query_heads = 0;    // in [1, 1024]
  int head_dim = 0;       // in [1, 1024]
};

// Scratch memory of the kernels, per thread and shared, sized once. Not thread-safe: one per
// forward pass.
class Workspace {
 public:
  virtual ~Workspace() = default;
};

// Where kernels run: a team of threads and its scratch. (The CUDA twin of this struct holds a
// stream.)
struct Stream {
  ThreadTeam* team = nullptr;
  Workspace* workspace = nullptr;
};

// One backend: an entry per op. Every function returns when its outputs are written; none
// allocates (but the reference); each returns InvalidArgument (naming op, value and limit) for a
// shape or format that it cannot take, or that its workspace was not sized for, before it writes.
struct Ops {
  const char* name;  // "reference", "scalar", "sse42", "avx2", "avx512", "avx512vnni"
  absl::StatusOr<std::unique_ptr<Workspace>> (*NewWorkspace)(const WorkspaceLimits&, int threads);
  absl::Status (*Embedding)(const EmbeddingParams&, Stream&);
  absl::Status (*RmsNorm)(const RmsNormParams&, Stream&);
  absl::Status (*Qkv)(const QkvParams&, Stream&);
  absl::Status (*Attention)(const AttentionParams&, Stream&);
  absl::Status (*RowParallel)(const RowParallelParams&, Stream&);
  absl::Status (*RowParallelResidual)(const RowParallelResidualParams&, Stream&);
  absl::Status (*GateUp)(const GateUpParams&, Stream&);
  absl::Status (*Logits)(const LogitsParams&, Stream&);
};

// Part of the numerics id: changes whenever any kernel's bits change.
inline constexpr std::string_view kCpuKernelVersion = "cpu-2";

// Obviously right, slow, single-threaded: what the conformance tests compare with, bit for bit.
const Ops& ReferenceOps();
// The tables that this processor can run, fastest first ("scalar" is always there).
std::vector<const Ops*> SupportedCpuOps();
const Ops& BestCpuOps();
// By name, among SupportedCpuOps and "reference". InvalidArgument names those that exist.
absl::StatusOr<const Ops*> FindOps(std::string_view name);

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_OPS_H_
