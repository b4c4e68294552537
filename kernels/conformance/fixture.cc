#include "kernels/conformance/fixture.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/make_ops.h"
#include "kernels/reference/scalar_math.h"
#include "runtime/base/check.h"
#include "runtime/tensor/block_formats.h"
#include "runtime/tensor/half.h"

namespace headway::kernels {
namespace cpu {
extern const Table kEmulatedAvx512Table;
extern const Table kEmulatedAvx512VnniTable;
}  // namespace cpu
namespace {

constexpr Ops kEmulatedAvx512Ops = cpu::MakeOps<cpu::kEmulatedAvx512Table>("emulated avx512");
constexpr Ops kEmulatedAvx512VnniOps =
    cpu::MakeOps<cpu::kEmulatedAvx512VnniTable>("emulated avx512vnni");

uint16_t RandomScale(Random& random) {
  switch (random.Below(16)) {
    case 0:
      return 0;
    case 1:
      return 0x0003;  // subnormal
    default:
      return FloatToF16(random.Symmetric(0.05f));
  }
}

}  // namespace

HostBuffer Memory(int64_t bytes) {
  absl::StatusOr<HostBuffer> buffer = HostBuffer::Allocate(bytes);
  HEADWAY_CHECK(buffer.ok());
  return *std::move(buffer);
}

std::vector<double> Matrix::Decoded(int output) const {
  std::vector<float> row(inputs);
  DecodeRow(format, Row(output), inputs, row.data());
  return std::vector<double>(row.begin(), row.end());
}

Matrix RandomMatrix(DType format, int outputs, int inputs, Random& random) {
  Matrix m = {format, outputs, inputs, {}};
  m.bytes.resize(outputs * RowBytes(format, inputs));
  const int block_bytes = BlockBytes(format);
  for (size_t at = 0; at < m.bytes.size(); at += block_bytes) {
    std::byte* block = &m.bytes[at];
    if (!IsQuantised(format)) {
      const float value = random.Symmetric(0.3f);
      const uint16_t half = format == DType::kF16 ? FloatToF16(value) : FloatToBf16(value);
      if (format == DType::kF32) {
        std::memcpy(block, &value, 4);
      } else {
        std::memcpy(block, &half, 2);
      }
      continue;
    }
    const uint16_t scale = RandomScale(random);
    std::memcpy(block, &scale, 2);
    int i = 2;
    if (format == DType::kQ4_1) {
      const uint16_t minimum = FloatToF16(random.Symmetric(0.3f));
      std::memcpy(block + 2, &minimum, 2);
      i = 4;
    }
    for (; i < block_bytes; ++i) block[i] = static_cast<std::byte>(random.Bits());
    // Rows of extremes: the largest sums that integer arithmetic meets.
    if (random.Below(8) == 0) {
      const std::byte extreme = random.Below(2) != 0 ? std::byte{0xff} : std::byte{0x80};
      std::fill(block + (format == DType::kQ4_1 ? 4 : 2), block + block_bytes, extreme);
    }
  }
  return m;
}

Packed Pack(const Matrix& matrix, int first, int count) {
  std::vector<const std::byte*> rows;
  for (int o = 0; o < matrix.outputs; ++o) rows.push_back(matrix.Row(o, first));
  Packed p;
  // Kernels prefetch beyond the end but do not read there: no slack.
  p.data = Memory(PackedLinearBytes(matrix.format, matrix.outputs, count));
  PackLinear(matrix.format, rows, count, p.data.data());
  p.view = {matrix.format, matrix.outputs, count, p.data.data(), nullptr};
  return p;
}

Packed Pack(const Matrix& matrix) { return Pack(matrix, 0, matrix.inputs); }

void AddBias(Packed& packed, Random& random) {
  packed.bias.assign((packed.view.outputs + 31) / 32 * 32, 0.0f);
  for (int o = 0; o < packed.view.outputs; ++o) packed.bias[o] = random.Symmetric(1.0f);
  packed.view.bias = packed.bias.data();
}

std::vector<double> ActivationBuffer::Values(int row) const {
  std::vector<double> values(view.width);
  for (int i = 0; i < view.width; ++i) {
    if (view.format == ActivationFormat::kF32) {
      values[i] = view.f32(row)[i];
    } else {
      for (int plane = 0; plane < Q8Planes(view.format); ++plane) {
        const Q8Block& block = view.q8(row, plane)[i / 32];
        values[i] += static_cast<double>(block.q[i % 32]) * block.scale;
      }
    }
  }
  return values;
}

ActivationBuffer EmptyActivations(ActivationFormat format, int rows, int width, int stride) {
  ActivationBuffer a;
  if (stride == 0) stride = ActivationStride(width);
  a.data = Memory(ActivationRowBytes(format, stride) * rows);
  // What an op leaves unwritten shows.
  std::fill_n(a.data.data(), a.data.size(), std::byte{0x5a});
  a.view = {format, a.data.data(), width, stride};
  return a;
}

ActivationBuffer RandomActivations(ActivationFormat format, int rows, int width, Random& random) {
  ActivationBuffer a = EmptyActivations(format, rows, width);
  std::vector<float> values(width);
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < width; ++i) values[i] = random.Symmetric(2.0f);
    // Blocks of zeros and of extremes.
    for (int i = 0; i + 32 <= width; i += 32) {
      const int kind = random.Below(8);
      if (kind == 0) std::fill_n(values.begin() + i, 32, 0.0f);
      if (kind == 1) std::fill_n(values.begin() + i, 32, random.Below(2) != 0 ? 3.0f : -3.0f);
    }
    reference::StoreActivations(values, a.view, row);
  }
  return a;
}

Machine::Machine(const Ops& ops, int threads, const WorkspaceLimits& limits)
    : ops(&ops), team(std::make_unique<ThreadTeam>(threads)) {
  absl::StatusOr<std::unique_ptr<Workspace>> made = ops.NewWorkspace(limits, threads);
  HEADWAY_CHECK(made.ok());
  workspace = *std::move(made);
}

std::string Machine::Name() const {
  return absl::StrCat(ops->name, " with ", team->size(), " threads");
}

WorkspaceLimits TestLimits() {
  return {.max_rows = 128,
          .max_positions = 4096,
          .max_width = 2048,
          .max_outputs = 2048,
          .query_heads = 40,
          .head_dim = 128};
}

std::vector<Machine> AllMachines(const WorkspaceLimits& limits) {
  std::vector<Machine> machines;
  machines.emplace_back(ReferenceOps(), 1, limits);
  for (const Ops* ops : SupportedCpuOps()) {
    for (int threads : {1, 2, 3}) machines.emplace_back(*ops, threads, limits);
  }
  if (std::string_view(BestCpuOps().name) == "avx2") {
    machines.emplace_back(kEmulatedAvx512Ops, 2, limits);
    machines.emplace_back(kEmulatedAvx512VnniOps, 2, limits);
  }
  return machines;
}

void ExpectSameBits(std::vector<Machine>& machines,
                    const std::function<absl::Status(const Ops&, Stream)>& op,
                    const std::function<std::vector<uint8_t>()>& result) {
  std::vector<uint8_t> expected;
  for (Machine& m : machines) {
    const absl::Status status = op(*m.ops, m.stream());
    ASSERT_TRUE(status.ok()) << m.Name() << ": " << status;
    std::vector<uint8_t> bits = result();
    if (&m == &machines.front()) {
      expected = std::move(bits);
      continue;
    }
    ASSERT_EQ(bits.size(), expected.size());
    const auto difference = std::mismatch(bits.begin(), bits.end(), expected.begin());
    EXPECT_TRUE(difference.first == bits.end())
        << m.Name() << " differs from the reference at byte " << difference.first - bits.begin()
        << " of " << bits.size();
  }
}

void ExpectInvalid(std::vector<Machine>& machines,
                   const std::function<absl::Status(const Ops&, Stream)>& op,
                   const std::string& text) {
  for (Machine& m : machines) {
    const absl::Status status = op(*m.ops, m.stream());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << m.Name() << ": " << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(text)) << m.Name();
  }
}

std::vector<uint8_t> BytesOf(const HostBuffer& buffer) {
  return std::vector<uint8_t>(buffer.As<uint8_t>(), buffer.As<uint8_t>() + buffer.size());
}

}  // namespace headway::kernels
