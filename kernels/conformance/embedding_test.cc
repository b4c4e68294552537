#include <limits>

#include "kernels/conformance/fixture.h"

namespace headway::kernels {
namespace {

TEST(EmbeddingConformance, EveryFormatGivesTheTablesValues) {
  std::vector<Machine> machines = AllMachines();
  Random random(1);
  for (DType format : kAllFormats) {
    SCOPED_TRACE(DTypeName(format));
    const int width = IsQuantised(format) ? 96 : 54;
    const Matrix table = RandomMatrix(format, 40, width, random);
    const std::vector<int32_t> tokens = {39, 0, 7, 7, 38};
    const int stride = width + 5;
    std::vector<float> output;
    ExpectSameBits(
        machines,
        [&](const Ops& ops, Stream stream) {
          output.assign(tokens.size() * stride, -7.0f);
          return ops.Embedding({.format = format,
                                .table = table.bytes.data(),
                                .vocabulary = 40,
                                .width = width,
                                .tokens = tokens,
                                .output = output.data(),
                                .output_stride = stride},
                               stream);
        },
        [&] { return BytesOf(output); });
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::vector<double> row = table.Decoded(tokens[i]);
      for (int d = 0; d < width; ++d) EXPECT_EQ(output[i * stride + d], row[d]);
      EXPECT_EQ(output[i * stride + width], -7.0f) << "wrote beyond the row";
    }
  }
}

TEST(EmbeddingConformance, RefusesWhatItCannotTake) {
  std::vector<Machine> machines = AllMachines();
  std::vector<float> table(4 * 8), output(8, -7.0f);
  std::vector<int32_t> tokens = {1};
  const EmbeddingParams good = {.format = DType::kF32,
                                .table = reinterpret_cast<std::byte*>(table.data()),
                                .vocabulary = 4,
                                .width = 8,
                                .tokens = tokens,
                                .output = output.data(),
                                .output_stride = 8};
  auto expect = [&](const EmbeddingParams& p, const std::string& text) {
    ExpectInvalid(
        machines, [&](const Ops& ops, Stream s) { return ops.Embedding(p, s); }, text);
  };
  for (int32_t bad : {4, -1, std::numeric_limits<int32_t>::max()}) {
    tokens[0] = bad;
    expect(good, "token id is " + std::to_string(bad) + ", outside [0, 3]");
  }
  tokens[0] = 1;
  EmbeddingParams p = good;
  p.format = DType::kQ4_1;
  expect(p, "width is 8");
  p = good;
  p.output_stride = 7;
  expect(p, "output_stride is 7");
  p = good;
  p.table = nullptr;
  expect(p, "table is null");
  EXPECT_THAT(output, testing::Each(-7.0f));
}

}  // namespace
}  // namespace headway::kernels
