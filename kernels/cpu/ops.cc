#include "kernels/cpu/ops.h"

#include "kernels/cpu/make_ops.h"

namespace headway::kernels::cpu {
namespace {

constexpr Ops kAvx512VnniOps = MakeOps<kAvx512VnniTable>("avx512vnni");
constexpr Ops kAvx512Ops = MakeOps<kAvx512Table>("avx512");
constexpr Ops kAvx2Ops = MakeOps<kAvx2Table>("avx2");
constexpr Ops kSse42Ops = MakeOps<kSse42Table>("sse42");
constexpr Ops kScalarOps = MakeOps<kScalarTable>("scalar");

}  // namespace

std::vector<const Ops*> SupportedOps() {
  std::vector<const Ops*> supported;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    if (__builtin_cpu_supports("avx512vnni")) supported.push_back(&kAvx512VnniOps);
    supported.push_back(&kAvx512Ops);
  }
  // Every processor with AVX2 and FMA converts half floats too.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    supported.push_back(&kAvx2Ops);
  }
  if (__builtin_cpu_supports("sse4.2")) supported.push_back(&kSse42Ops);
  supported.push_back(&kScalarOps);
  return supported;
}

}  // namespace headway::kernels::cpu
