#include <xmmintrin.h>

#include <cmath>

#include "kernels/conformance/fixture.h"

namespace headway::kernels {
namespace {

struct Case {
  int rows, width;
  ActivationFormat format;
};

TEST(RmsNormConformance, EveryWidthAndRowCount) {
  std::vector<Machine> machines = AllMachines();
  Random random(2);
  for (const Case& c : std::vector<Case>{{1, 1, ActivationFormat::kF32},
                                         {3, 15, ActivationFormat::kF32},
                                         {2, 16, ActivationFormat::kF32},
                                         {5, 54, ActivationFormat::kF32},
                                         {9, 576, ActivationFormat::kF32},
                                         {1, 32, ActivationFormat::kQ8},
                                         {4, 96, ActivationFormat::kQ8},
                                         {9, 576, ActivationFormat::kQ8},
                                         {1, 32, ActivationFormat::kQ16},
                                         {5, 96, ActivationFormat::kQ16},
                                         {3, 576, ActivationFormat::kQ16}}) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows of " << c.width);
    const int input_stride = c.width + 3;
    std::vector<float> input((c.rows + 2) * input_stride), weight(c.width);
    for (float& x : input) x = random.Symmetric(4.0f);
    for (float& x : weight) x = random.Symmetric(1.5f);
    std::vector<int32_t> index;
    for (int r = 0; r < c.rows; ++r) index.push_back(random.Below(c.rows + 2));
    for (bool indexed : {false, true}) {
      for (int stride : {ActivationStride(c.width), ActivationStride(c.width) + 64}) {
        ActivationBuffer output = EmptyActivations(c.format, c.rows, c.width, stride);
        ExpectSameBits(
            machines,
            [&](const Ops& ops, Stream stream) {
              std::fill_n(output.data.data(), output.data.size(), std::byte{0x5a});
              return ops.RmsNorm({.input = input.data(),
                                  .input_stride = input_stride,
                                  .row_index = indexed ? std::span<const int32_t>(index)
                                                       : std::span<const int32_t>(),
                                  .rows = c.rows,
                                  .weight = weight.data(),
                                  .epsilon = 1e-5f,
                                  .output = output.view},
                                 stream);
            },
            [&] { return BytesOf(output.data); });
        // Against float64: width / 16 + 4 additions of squares, then six roundings, halved by the
        // root where they are under it; q8 adds half a step.
        for (int r = 0; r < c.rows; ++r) {
          const float* x = &input[(indexed ? index[r] : r) * input_stride];
          double squares = 0;
          for (int d = 0; d < c.width; ++d) squares += double{x[d]} * x[d];
          const double scale = 1 / std::sqrt(squares / c.width + 1e-5f);
          const std::vector<double> got = output.Values(r);
          double largest = 0;
          for (int d = 0; d < c.width; ++d) {
            largest = std::max(largest, std::fabs(x[d] * scale * weight[d]));
          }
          for (int d = 0; d < c.width; ++d) {
            const double want = x[d] * scale * weight[d];
            double tolerance = std::fabs(want) * (c.width / 16 + 10) * kRounding;
            if (c.format == ActivationFormat::kQ8) tolerance += largest / 127 * 0.5001;
            // The remainder is half a step of the first plane at most.
            if (c.format == ActivationFormat::kQ16) {
              tolerance += largest / 127 * 0.5001 / 127 * 0.5001 + largest * kRounding;
            }
            ASSERT_NEAR(got[d], want, tolerance) << "row " << r << ", dimension " << d;
          }
        }
      }
    }
  }
}

TEST(RmsNormConformance, TinyLargeAndNotANumber) {
  std::vector<Machine> machines = AllMachines();
  const int width = 64;
  std::vector<float> input(4 * width), weight(width, 1.0f);
  for (int d = 0; d < width; ++d) {
    input[d] = 1e-40f * static_cast<float>(d - 20);            // subnormal
    input[width + d] = 1e15f * static_cast<float>(d % 7 - 3);  // squares of 1e31
    input[2 * width + d] = 0;
    input[3 * width + d] = d == 5 ? NAN : 1.0f;
    weight[d] = d % 3 == 0 ? 1e-30f : 1.0f;
  }
  for (ActivationFormat format :
       {ActivationFormat::kF32, ActivationFormat::kQ8, ActivationFormat::kQ16}) {
    ActivationBuffer output = EmptyActivations(format, 3, width);
    auto op = [&](const Ops& ops, Stream stream) {
      return ops.RmsNorm({.input = input.data(),
                          .input_stride = width,
                          .rows = 3,
                          .weight = weight.data(),
                          .epsilon = 1e-6f,
                          .output = output.view},
                         stream);
    };
    ExpectSameBits(machines, op, [&] { return BytesOf(output.data); });
    // The same where the caller's thread flushes subnormals to zero.
    const std::vector<uint8_t> expected = BytesOf(output.data);
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
    for (Machine& m : machines) {
      ASSERT_TRUE(op(*m.ops, m.stream()).ok());
      EXPECT_EQ(BytesOf(output.data), expected) << m.Name();
    }
    _mm_setcsr(before);
    // A NaN is not swallowed.
    ActivationBuffer last = EmptyActivations(format, 1, width);
    for (Machine& m : machines) {
      ASSERT_TRUE(m.ops
                      ->RmsNorm({.input = &input[3 * width],
                                 .input_stride = width,
                                 .rows = 1,
                                 .weight = weight.data(),
                                 .epsilon = 1e-6f,
                                 .output = last.view},
                                *std::make_unique<Stream>(m.stream()))
                      .ok());
      EXPECT_TRUE(std::isnan(last.Values(0)[40])) << m.Name();
    }
  }
}

TEST(RmsNormConformance, RefusesWhatItCannotTake) {
  std::vector<Machine> machines = AllMachines();
  std::vector<float> input(64), weight(64);
  ActivationBuffer output = EmptyActivations(ActivationFormat::kQ8, 1, 64);
  const RmsNormParams good = {.input = input.data(),
                              .input_stride = 64,
                              .rows = 1,
                              .weight = weight.data(),
                              .epsilon = 1,
                              .output = output.view};
  auto expect = [&](const RmsNormParams& p, const std::string& text) {
    ExpectInvalid(
        machines, [&](const Ops& ops, Stream s) { return ops.RmsNorm(p, s); }, text);
  };
  RmsNormParams p = good;
  p.output.width = 40;
  expect(p, "40 wide");
  p = good;
  p.output.stride = 32;
  expect(p, "stride 32");
  p = good;
  p.input_stride = 63;
  expect(p, "input_stride is 63");
  p = good;
  const std::vector<int32_t> two = {0, 0}, negative = {-1};
  p.row_index = two;
  expect(p, "names 2 rows of 1");
  p.row_index = negative;
  expect(p, "is -1");
}

}  // namespace
}  // namespace headway::kernels
