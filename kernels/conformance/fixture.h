#ifndef HEADWAY_KERNELS_CONFORMANCE_FIXTURE_H_
#define HEADWAY_KERNELS_CONFORMANCE_FIXTURE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ops.h"
#include "runtime/device/host_buffer.h"

// Data, machines and comparisons for the conformance tests: every op runs on the reference and on
// every table of this processor, with several teams, and all bits must agree.
namespace headway::kernels {

// A small generator with the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  uint32_t Bits() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    const uint64_t mixed = state_ ^ (state_ >> 29);
    return static_cast<uint32_t>(mixed >> 16);
  }
  int Below(int n) { return static_cast<int>(Bits() % static_cast<uint32_t>(n)); }
  // Uniform in [-limit, limit).
  float Symmetric(float limit) {
    return (static_cast<float>(Bits() >> 8) * 0x1p-23f - 1.0f) * limit;
  }

 private:
  uint64_t state_;
};

inline constexpr DType kAllFormats[] = {DType::kF32,  DType::kF16,  DType::kBF16,
                                        DType::kQ8_0, DType::kQ4_0, DType::kQ4_1};

HostBuffer Memory(int64_t bytes);

// A matrix in the checkpoint's layout.
struct Matrix {
  DType format;
  int outputs;
  int inputs;
  std::vector<std::byte> bytes;

  const std::byte* Row(int output, int first_input = 0) const {
    return bytes.data() + static_cast<int64_t>(output) * RowBytes(format, inputs) +
           RowBytes(format, first_input);
  }
  std::vector<double> Decoded(int output) const;
};
// Quantised blocks take every integer and scales of both signs, zero and subnormal included.
Matrix RandomMatrix(DType format, int outputs, int inputs, Random& random);

// The same as the kernels want it.
struct Packed {
  HostBuffer data;
  std::vector<float> bias;
  PackedLinear view;
};
// Inputs [first, first + count) of the matrix.
Packed Pack(const Matrix& matrix, int first, int count);
Packed Pack(const Matrix& matrix);
void AddBias(Packed& packed, Random& random);

struct ActivationBuffer {
  HostBuffer data;
  Activations view;

  // What a row stands for.
  std::vector<double> Values(int row) const;
};
// `stride` 0: the least.
ActivationBuffer EmptyActivations(ActivationFormat format, int rows, int width, int stride = 0);
ActivationBuffer RandomActivations(ActivationFormat format, int rows, int width, Random& random);

// An Ops table with a team and a workspace.
struct Machine {
  const Ops* ops;
  std::unique_ptr<ThreadTeam> team;
  std::unique_ptr<Workspace> workspace;

  Machine(const Ops& ops, int threads, const WorkspaceLimits& limits);
  std::string Name() const;
  Stream stream() { return {team.get(), workspace.get()}; }
};

// Limits that hold for every test.
WorkspaceLimits TestLimits();

// The reference first, then every table of this processor with 1, 2 and 3 threads; the AVX-512
// kernels on emulated intrinsics (2 threads) where the processor has AVX2 but not AVX-512.
std::vector<Machine> AllMachines(const WorkspaceLimits& limits = TestLimits());

// Runs `op` on every machine and expects what `result` returns afterwards to have the reference's
// bits.
void ExpectSameBits(std::vector<Machine>& machines,
                    const std::function<absl::Status(const Ops&, Stream)>& op,
                    const std::function<std::vector<uint8_t>()>& result);

// Expects InvalidArgument with `text` in its message from every machine.
void ExpectInvalid(std::vector<Machine>& machines,
                   const std::function<absl::Status(const Ops&, Stream)>& op,
                   const std::string& text);

template <class T>
std::vector<uint8_t> BytesOf(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const uint8_t*>(values.data());
  return std::vector<uint8_t>(begin, begin + values.size() * sizeof(T));
}
std::vector<uint8_t> BytesOf(const HostBuffer& buffer);

// 2^-24: half a unit in the last place of 1.
inline constexpr double kRounding = 0x1p-24;

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_CONFORMANCE_FIXTURE_H_
