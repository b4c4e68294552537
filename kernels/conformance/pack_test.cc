#include "kernels/pack.h"

#include "kernels/conformance/fixture.h"
#include "kernels/packed_layout.h"

namespace headway::kernels {
namespace {

TEST(PackTest, PackingLosesAndChangesNothing) {
  Random random(3);
  for (DType format : kAllFormats) {
    for (int outputs : {1, 16, 31, 32, 33, 70}) {
      const int inputs = IsQuantised(format) ? 96 : 13;
      const Matrix m = RandomMatrix(format, outputs, inputs, random);
      const Packed p = Pack(m);
      EXPECT_EQ(static_cast<int64_t>(p.data.size()),
                (outputs + 31) / 32 * 32 * RowBytes(format, inputs));
      std::vector<std::byte> block(BlockBytes(format));
      for (int o = 0; o < (outputs + 31) / 32 * 32; ++o) {
        for (int b = 0; b < inputs / BlockElements(format); ++b) {
          UnpackBlock(format, p.data.data(), inputs, o, b, block.data());
          std::vector<std::byte> expected(block.size());
          if (o < outputs) {
            const std::byte* from = m.Row(o) + b * BlockBytes(format);
            expected.assign(from, from + block.size());
          }
          ASSERT_EQ(block, expected) << DTypeName(format) << " output " << o << " block " << b;
        }
      }
    }
  }
}

TEST(PackTest, GateAndUpAlternateBySixteen) {
  Random random(4);
  for (DType format : kAllFormats) {
    const int inputs = 32;
    const int columns = 21;
    const Matrix gate = RandomMatrix(format, columns, inputs, random);
    const Matrix up = RandomMatrix(format, columns, inputs, random);
    std::vector<const std::byte*> gate_rows, up_rows;
    for (int j = 0; j < columns; ++j) {
      gate_rows.push_back(gate.Row(j));
      up_rows.push_back(up.Row(j));
    }
    HostBuffer packed = Memory(PackedGateUpBytes(format, columns, inputs));
    EXPECT_EQ(static_cast<int64_t>(packed.size()), 64 * RowBytes(format, inputs));
    PackGateUp(format, gate_rows, up_rows, inputs, packed.data());
    std::vector<std::byte> block(BlockBytes(format));
    for (int j = 0; j < columns; ++j) {
      const int at = 32 * (j / 16) + j % 16;
      UnpackBlock(format, packed.data(), inputs, at, 0, block.data());
      EXPECT_TRUE(std::equal(block.begin(), block.end(), gate.Row(j)));
      UnpackBlock(format, packed.data(), inputs, at + 16, 0, block.data());
      EXPECT_TRUE(std::equal(block.begin(), block.end(), up.Row(j)));
    }
  }
}

}  // namespace
}  // namespace headway::kernels
