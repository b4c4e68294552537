#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/conformance/fixture.h"
#include "runtime/tensor/reduction_tree.h"

namespace headway::kernels {
namespace {

// A format of weights, one of activations, and sizes.
struct Case {
  DType weights;
  ActivationFormat activations;
  int outputs, inputs, rows;
};

void PrintTo(const Case& c, std::ostream* out) {
  const char* names[] = {" x f32, ", " x q8, ", " x q16, "};
  *out << DTypeName(c.weights) << names[static_cast<int>(c.activations)] << c.outputs
       << " outputs, " << c.inputs << " inputs, " << c.rows << " rows";
}

// Every pair of formats that meets, over sizes with tails and every row remainder.
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (DType format : kAllFormats) {
    for (ActivationFormat activations :
         {ActivationFormat::kF32, ActivationFormat::kQ8, ActivationFormat::kQ16}) {
      if (activations != ActivationFormat::kF32 && !IsQuantised(format)) continue;
      const bool whole = IsQuantised(format);
      int i = 0;
      for (int rows : {1, 2, 3, 4, 5, 6, 7, 8, 13, 35}) {
        const int outputs[] = {1, 32, 54, 16, 65};
        const int inputs[] = {32, 96, 160};
        const int odd_inputs[] = {1, 54, 37};
        cases.push_back(
            {format, activations, outputs[i % 5], whole ? inputs[i % 3] : odd_inputs[i % 3], rows});
        ++i;
      }
    }
  }
  return cases;
}

// sum of |w x| over all inputs times the roundings of a chain of that length.
double Tolerance(const std::vector<double>& w, const std::vector<double>& x, int more_roundings) {
  double magnitude = 0;
  for (size_t k = 0; k < w.size(); ++k) magnitude += std::fabs(w[k] * x[k]);
  return magnitude * (static_cast<double>(w.size()) + more_roundings) * kRounding;
}

double Dot(const std::vector<double>& w, const std::vector<double>& x) {
  double sum = 0;
  for (size_t k = 0; k < w.size(); ++k) sum += w[k] * x[k];
  return sum;
}

// The minimum of a Q4_1 block meets the rounded sum of a block, so its terms may be larger than the
// weights' own.
double BlockTolerance(const Case& c, const std::vector<double>& x) {
  if (c.weights != DType::kQ4_1 || c.activations == ActivationFormat::kF32) return 0;
  double magnitude = 0;
  for (double v : x) magnitude += std::fabs(v) * (0.3 + 15 * 0.05);
  return magnitude * 8 * kRounding;
}

TEST(LogitsConformance, EveryFormatAndSize) {
  std::vector<Machine> machines = AllMachines();
  Random random(5);
  for (const Case& c : Cases()) {
    SCOPED_TRACE(testing::PrintToString(c));
    const Matrix m = RandomMatrix(c.weights, c.outputs, c.inputs, random);
    Packed w = Pack(m);
    const bool biased = c.rows % 2 == 0;
    if (biased) AddBias(w, random);
    const ActivationBuffer x = RandomActivations(c.activations, c.rows, c.inputs, random);
    const int64_t stride = (c.outputs + 31) / 32 * 32 + 32;
    std::vector<float> logits;
    ExpectSameBits(
        machines,
        [&](const Ops& ops, Stream stream) {
          logits.assign(c.rows * stride, -7.0f);
          return ops.Logits({.input = x.view,
                             .rows = c.rows,
                             .weight = w.view,
                             .logits = logits.data(),
                             .stride = stride},
                            stream);
        },
        [&] { return BytesOf(logits); });
    for (int row = 0; row < c.rows; ++row) {
      const std::vector<double> values = x.Values(row);
      for (int o = 0; o < stride; ++o) {
        const float got = logits[row * stride + o];
        if (o >= c.outputs) {
          ASSERT_EQ(got, o < stride - 32 ? 0.0f : -7.0f);
          continue;
        }
        const std::vector<double> weights = m.Decoded(o);
        const double bias = biased ? w.bias[o] : 0.0;
        ASSERT_NEAR(
            got, Dot(weights, values) + bias,
            Tolerance(weights, values, 4) + BlockTolerance(c, values) + std::fabs(bias) * kRounding)
            << "row " << row << ", output " << o;
      }
    }
  }
}

TEST(LogitsConformance, ManyRowsInRuns) {
  // Few tiles and many rows: units are runs of rows.
  WorkspaceLimits limits = TestLimits();
  limits.max_rows = 300;
  std::vector<Machine> machines = AllMachines(limits);
  Random random(6);
  for (ActivationFormat format :
       {ActivationFormat::kQ8, ActivationFormat::kQ16, ActivationFormat::kF32}) {
    const Matrix m = RandomMatrix(DType::kQ4_1, 40, 64, random);
    const Packed w = Pack(m);
    const ActivationBuffer x = RandomActivations(format, 300, 64, random);
    std::vector<float> logits(300 * 64);
    ExpectSameBits(
        machines,
        [&](const Ops& ops, Stream stream) {
          return ops.Logits({.input = x.view,
                             .rows = 300,
                             .weight = w.view,
                             .logits = logits.data(),
                             .stride = 64},
                            stream);
        },
        [&] { return BytesOf(logits); });
  }
}

// Offsets of `groups` groups over `inputs`, uneven, multiples of `unit`; some may be empty.
std::vector<int> RandomBounds(int groups, int inputs, int unit, Random& random) {
  std::vector<int> bounds = {0, inputs};
  for (int g = 1; g < groups; ++g) bounds.push_back(random.Below(inputs / unit + 1) * unit);
  std::sort(bounds.begin(), bounds.end());
  return bounds;
}

TEST(RowParallelConformance, AnyCutOfTheGroupsGivesTheWholesBits) {
  std::vector<Machine> machines = AllMachines();
  Random random(7);
  for (const Case& c : Cases()) {
    if (c.rows > 8 || c.activations == ActivationFormat::kQ16) continue;
    SCOPED_TRACE(testing::PrintToString(c));
    const int unit = BlockElements(c.weights);
    const int inputs = unit == 1 ? 61 : 512;
    const Matrix m = RandomMatrix(c.weights, c.outputs, inputs, random);
    Packed w = Pack(m);
    const bool biased = c.rows % 3 != 0;
    if (biased) AddBias(w, random);
    const ActivationBuffer x = RandomActivations(c.activations, c.rows, inputs, random);
    const int groups = 1 + random.Below(kMaxReductionGroups);
    const std::vector<int> bounds = RandomBounds(groups, inputs, unit, random);
    const int residual_stride = c.outputs + random.Below(2);
    std::vector<float> before(c.rows * residual_stride), residual;
    for (float& v : before) v = random.Symmetric(3.0f);

    ExpectSameBits(
        machines,
        [&](const Ops& ops, Stream stream) {
          residual = before;
          return ops.RowParallelResidual({.input = x.view,
                                          .rows = c.rows,
                                          .weight = w.view,
                                          .groups = {.total = groups, .first = 0, .bounds = bounds},
                                          .residual = residual.data(),
                                          .residual_stride = residual_stride},
                                         stream);
        },
        [&] { return BytesOf(residual); });
    for (int row = 0; row < c.rows; ++row) {
      const std::vector<double> values = x.Values(row);
      for (int o = 0; o < c.outputs; ++o) {
        const std::vector<double> weights = m.Decoded(o);
        const int at = row * residual_stride + o;
        const double want = Dot(weights, values) + (biased ? w.bias[o] : 0.0) + before[at];
        ASSERT_NEAR(residual[at], want,
                    Tolerance(weights, values, 8) + BlockTolerance(c, values) + 8 * kRounding);
      }
    }

    // Ranks: runs of groups, slices of weights and activations, roots gathered and combined.
    const int degree = 1 + random.Below(std::min(groups, 5));
    const int root_stride = (c.outputs + 31) / 32 * 32;
    const int64_t matrix = static_cast<int64_t>(c.rows) * root_stride;
    for (Machine& machine : machines) {
      std::vector<TreeNode> nodes;
      std::vector<std::vector<float>> roots;
      for (int rank = 0; rank < degree; ++rank) {
        const int first = groups * rank / degree;
        const int end = groups * (rank + 1) / degree;
        const int k0 = bounds[first], k1 = bounds[end];
        const std::vector<TreeNode> own = MaximalSubtrees(first, end, groups);
        if (k0 == k1) {  // nothing to multiply: the groups' sums are zeros
          for (const TreeNode& node : own) {
            nodes.push_back(node);
            roots.emplace_back(matrix, 0.0f);
          }
          continue;
        }
        const Packed slice = Pack(m, k0, k1 - k0);
        ActivationBuffer part = EmptyActivations(c.activations, c.rows, k1 - k0);
        std::fill_n(part.data.data(), part.data.size(), std::byte{0});
        for (int row = 0; row < c.rows; ++row) {
          if (c.activations == ActivationFormat::kF32) {
            std::copy_n(x.view.f32(row) + k0, k1 - k0, part.view.f32(row));
          } else {
            std::copy_n(x.view.q8(row) + k0 / 32, (k1 - k0) / 32, part.view.q8(row));
          }
        }
        std::vector<int> local;
        for (int g = first; g <= end; ++g) local.push_back(bounds[g] - k0);
        std::vector<float> out(own.size() * (matrix + 64), -7.0f);
        Stream stream = machine.stream();
        const absl::Status status =
            machine.ops->RowParallel({.input = part.view,
                                      .rows = c.rows,
                                      .weight = slice.view,
                                      .groups = {.total = groups, .first = first, .bounds = local},
                                      .roots = out.data(),
                                      .root_stride = root_stride,
                                      .root_matrix_stride = matrix + 64},
                                     stream);
        ASSERT_TRUE(status.ok()) << status;
        for (size_t i = 0; i < own.size(); ++i) {
          nodes.push_back(own[i]);
          const auto begin = out.begin() + static_cast<int64_t>(i) * (matrix + 64);
          roots.emplace_back(begin, begin + matrix);
        }
      }
      std::vector<float*> values;
      for (std::vector<float>& root : roots) values.push_back(root.data());
      std::vector<float> sum(matrix);
      CombineSubtrees(nodes, values, groups, static_cast<int>(matrix), sum.data());
      for (int row = 0; row < c.rows; ++row) {
        for (int o = 0; o < c.outputs; ++o) {
          float total = sum[row * root_stride + o];
          if (biased) total = total + w.bias[o];
          const int at = row * residual_stride + o;
          const float expected = before[at] + total;
          ASSERT_EQ(std::memcmp(&expected, &residual[at], 4), 0)
              << machine.Name() << ", degree " << degree << " of " << groups << " groups, row "
              << row << ", output " << o;
        }
      }
    }
  }
}

TEST(RowParallelConformance, ARankWithoutGroupsDoesNothing) {
  std::vector<Machine> machines = AllMachines();
  const std::vector<int> one_bound = {0};
  for (Machine& m : machines) {
    for (std::span<const int> bounds : {std::span<const int>(), std::span<const int>(one_bound)}) {
      Stream stream = m.stream();
      EXPECT_TRUE(m.ops
                      ->RowParallel(
                          {.rows = 2, .groups = {.total = 4, .first = 4, .bounds = bounds}}, stream)
                      .ok());
    }
  }
}

TEST(GateUpConformance, EveryFormatAndSize) {
  std::vector<Machine> machines = AllMachines();
  Random random(8);
  for (const Case& c : Cases()) {
    for (ActivationFormat output_format : {ActivationFormat::kF32, ActivationFormat::kQ8}) {
      const int columns =
          output_format == ActivationFormat::kQ8 ? (c.outputs + 31) / 32 * 32 : c.outputs;
      SCOPED_TRACE(testing::PrintToString(c));
      const Matrix gate = RandomMatrix(c.weights, columns, c.inputs, random);
      const Matrix up = RandomMatrix(c.weights, columns, c.inputs, random);
      std::vector<const std::byte*> gate_rows, up_rows;
      for (int j = 0; j < columns; ++j) {
        gate_rows.push_back(gate.Row(j));
        up_rows.push_back(up.Row(j));
      }
      HostBuffer packed = Memory(PackedGateUpBytes(c.weights, columns, c.inputs));
      PackGateUp(c.weights, gate_rows, up_rows, c.inputs, packed.data());
      std::vector<float> bias((columns + 15) / 16 * 32);
      for (int j = 0; j < columns; ++j) {
        bias[32 * (j / 16) + j % 16] = random.Symmetric(0.5f);
        bias[32 * (j / 16) + j % 16 + 16] = random.Symmetric(0.5f);
      }
      const bool biased = c.rows % 2 == 0;
      const ActivationBuffer x = RandomActivations(c.activations, c.rows, c.inputs, random);
      ActivationBuffer y = EmptyActivations(output_format, c.rows, columns,
                                            ActivationStride(columns) + (c.rows % 3 == 0 ? 32 : 0));
      ExpectSameBits(
          machines,
          [&](const Ops& ops, Stream stream) {
            std::fill_n(y.data.data(), y.data.size(), std::byte{0x5a});
            return ops.GateUp({.input = x.view,
                               .rows = c.rows,
                               .weight = {c.weights, 2 * columns, c.inputs, packed.data(),
                                          biased ? bias.data() : nullptr},
                               .output = y.view},
                              stream);
          },
          [&] { return BytesOf(y.data); });
      if (output_format == ActivationFormat::kQ8) continue;
      for (int row = 0; row < c.rows; ++row) {
        const std::vector<double> values = x.Values(row);
        for (int j = 0; j < columns; ++j) {
          const std::vector<double> wg = gate.Decoded(j), wu = up.Decoded(j);
          const double g = Dot(wg, values) + (biased ? bias[32 * (j / 16) + j % 16] : 0.0);
          const double u = Dot(wu, values) + (biased ? bias[32 * (j / 16) + j % 16 + 16] : 0.0);
          const double eg = Tolerance(wg, values, 8) + BlockTolerance(c, values);
          const double eu = Tolerance(wu, values, 8) + BlockTolerance(c, values);
          const double silu = g / (1 + std::exp(-g));
          // SiLU's slope is at most 1.1; e^x is good to 2e-7, and two roundings follow.
          const double error = 1.1 * eg * std::fabs(u) + eu * std::fabs(silu) +
                               std::fabs(silu * u) * (2e-7 + 4 * kRounding) + eg * eu;
          ASSERT_NEAR(y.view.f32(row)[j], silu * u, error + 1e-30) << "row " << row << ", " << j;
        }
      }
    }
  }
}

TEST(LinearConformance, RefusesWhatItCannotTake) {
  std::vector<Machine> machines = AllMachines();
  Random random(9);
  const Packed w = Pack(RandomMatrix(DType::kF32, 8, 64, random));
  const Packed q = Pack(RandomMatrix(DType::kQ4_0, 8, 64, random));
  const ActivationBuffer x = RandomActivations(ActivationFormat::kF32, 2, 64, random);
  const ActivationBuffer x8 = RandomActivations(ActivationFormat::kQ8, 2, 64, random);
  std::vector<float> out(2 * 32, -7.0f);
  auto logits = [&](LogitsParams p, const std::string& text) {
    ExpectInvalid(
        machines, [&](const Ops& ops, Stream s) { return ops.Logits(p, s); }, text);
  };
  const LogitsParams good = {
      .input = x.view, .rows = 2, .weight = w.view, .logits = out.data(), .stride = 32};
  LogitsParams p = good;
  p.input = x8.view;
  logits(p, "weight is f32: q8 activations meet quantised weights only");
  p = good;
  p.weight.inputs = 63;
  logits(p, "takes 63 inputs, but the activations are 64 wide");
  p = good;
  p.weight = q.view;
  p.weight.inputs = p.input.width = 63;
  logits(p, "not a multiple of 32 as q4_0 needs");
  p = good;
  p.stride = 33;
  logits(p, "stride is 33");
  p = good;
  p.rows = -1;
  logits(p, "rows is -1");
  p = good;
  p.weight.data = nullptr;
  logits(p, "weight is null");

  const std::vector<int> bounds = {0, 16, 64};
  auto residual = [&](RowParallelResidualParams p, const std::string& text) {
    ExpectInvalid(
        machines, [&](const Ops& ops, Stream s) { return ops.RowParallelResidual(p, s); }, text);
  };
  const RowParallelResidualParams groups = {.input = x.view,
                                            .rows = 2,
                                            .weight = w.view,
                                            .groups = {.total = 2, .first = 0, .bounds = bounds},
                                            .residual = out.data(),
                                            .residual_stride = 8};
  RowParallelResidualParams r = groups;
  r.weight = q.view;
  residual(r, "group 1 starts at input 16, within a block of 32 of q4_0");
  r = groups;
  r.groups.total = 3;
  residual(r, "holds 2 of 3 reduction groups");
  r = groups;
  r.groups.total = 17;
  residual(r, "is 17, outside [1, 16]");
  r = groups;
  const std::vector<int> short_bounds = {0, 16, 60}, down = {0, 40, 16, 64};
  r.groups.bounds = short_bounds;
  residual(r, "of [0, 64)");
  r.groups.bounds = down;
  r.groups.total = 3;
  residual(r, "before its start");
  r = groups;
  const ActivationBuffer x16 = RandomActivations(ActivationFormat::kQ16, 2, 64, random);
  const std::vector<int> halves = {0, 32, 64};
  r.input = x16.view;
  r.weight = q.view;
  r.groups.bounds = halves;
  residual(r, "input is of q16 activations");
  r = groups;
  r.residual_stride = 7;
  residual(r, "residual_stride is 7");

  auto gate_up = [&](GateUpParams p, const std::string& text) {
    ExpectInvalid(
        machines, [&](const Ops& ops, Stream s) { return ops.GateUp(p, s); }, text);
  };
  ActivationBuffer y = EmptyActivations(ActivationFormat::kF32, 2, 4);
  GateUpParams g = {.input = x.view, .rows = 2, .weight = w.view, .output = y.view};
  g.weight.outputs = 7;
  gate_up(g, "not a multiple of 2");
  g.weight.outputs = 8;
  g.output.width = 5;
  gate_up(g, "width of the output is 5");
  g.output = x16.view;
  gate_up(g, "output is of q16 activations");
  EXPECT_THAT(out, testing::Each(-7.0f));
}

TEST(LinearConformance, RefusesMoreThanItsWorkspaceHolds) {
  Random random(10);
  const Packed w = Pack(RandomMatrix(DType::kQ8_0, 8, 64, random));
  const ActivationBuffer x = RandomActivations(ActivationFormat::kQ8, 3, 64, random);
  std::vector<float> out(3 * 32);
  const LogitsParams p = {
      .input = x.view, .rows = 3, .weight = w.view, .logits = out.data(), .stride = 32};
  WorkspaceLimits few_rows = TestLimits(), narrow = TestLimits();
  few_rows.max_rows = 2;
  narrow.max_width = 32;
  for (const Ops* ops : SupportedCpuOps()) {
    Machine small(*ops, 1, few_rows), thin(*ops, 1, narrow);
    Stream stream = small.stream();
    EXPECT_THAT(std::string(ops->Logits(p, stream).message()),
                testing::HasSubstr("rows is 3, but the workspace was sized for 2"));
    stream = thin.stream();
    EXPECT_THAT(std::string(ops->Logits(p, stream).message()),
                testing::HasSubstr("inputs is 64, but the workspace was sized for 32"));
    ThreadTeam more(2);
    stream.team = &more;
    EXPECT_THAT(std::string(ops->Logits(p, stream).message()), testing::HasSubstr("threads is 2"));
    Machine other(ReferenceOps(), 1, narrow);
    stream = other.stream();
    EXPECT_EQ(ops->Logits(p, stream).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace headway::kernels
