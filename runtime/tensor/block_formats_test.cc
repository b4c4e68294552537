#include "runtime/tensor/block_formats.h"

#include <bit>
#include <cctype>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/tensor/half.h"
#include "tests/golden_tensors.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

std::string UpperCase(std::string_view name) {
  std::string upper;
  for (const char c : name) upper += static_cast<char>(std::toupper(c));
  return upper;
}

class BlockFormatsTest : public testing::TestWithParam<DType> {};

// gguf-py's values, to the bit: random blocks with scales of every kind, negative, zero, subnormal
// and greatest ones included.
TEST_P(BlockFormatsTest, DecodesGoldenBlocks) {
  const DType dtype = GetParam();
  const GoldenTensors golden =
      ReadGolden(GoldenPath("quants/" + UpperCase(DTypeName(dtype)) + ".safetensors"));
  const GoldenTensor& raw = golden.at("raw");
  const GoldenTensor& values = golden.at("values");
  std::vector<std::byte> bytes;
  for (const int32_t byte : raw.ints) bytes.push_back(static_cast<std::byte>(byte));
  ASSERT_EQ(static_cast<int64_t>(bytes.size()),
            RowBytes(dtype, static_cast<int64_t>(values.floats.size())));
  // Off by one, as a tensor in a file may lie.
  bytes.insert(bytes.begin(), std::byte{0xff});

  std::vector<float> decoded(values.floats.size());
  DecodeRow(dtype, bytes.data() + 1, static_cast<int64_t>(decoded.size()), decoded.data());
  for (size_t i = 0; i < decoded.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(decoded[i]), std::bit_cast<uint32_t>(values.floats[i]))
        << "value " << i << ": " << decoded[i] << " and " << values.floats[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Types, BlockFormatsTest,
                         testing::Values(DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0,
                                         DType::kQ4_1),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

TEST(BlockFormatsF32Test, IsCopied) {
  const float values[] = {1.5f, -0.0f, std::numeric_limits<float>::denorm_min()};
  float decoded[3];
  DecodeRow(DType::kF32, reinterpret_cast<const std::byte*>(values), 3, decoded);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(decoded[i]), std::bit_cast<uint32_t>(values[i]));
  }
}

TEST(HalfTest, RoundsAsGoldenBits) {
  const GoldenTensors golden = ReadGolden(GoldenPath("quants/float_formats.safetensors"));
  const std::vector<int32_t>& inputs = golden.at("f32_bits").ints;
  const std::vector<int32_t>& f16 = golden.at("f16_bits").ints;
  const std::vector<int32_t>& bf16 = golden.at("bf16_bits").ints;
  ASSERT_GT(inputs.size(), 1000u);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const float input = std::bit_cast<float>(inputs[i]);
    if (std::isnan(input)) {
      EXPECT_TRUE(std::isnan(F16ToFloat(FloatToF16(input))));
      EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(input))));
      continue;
    }
    ASSERT_EQ(FloatToF16(input), f16[i]) << input;
    ASSERT_EQ(FloatToBf16(input), bf16[i]) << input;
  }
}

// What a NaN keeps beside being one: no payload may turn it into an infinity.
TEST(HalfTest, NoNanTurnsIntoInfinity) {
  for (const uint32_t bits : {0x7f800001u, 0x7f80ffffu, 0xff801000u, 0x7fc00000u, 0xffffffffu}) {
    const float input = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(F16ToFloat(FloatToF16(input)))) << std::hex << bits;
    EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(input)))) << std::hex << bits;
    EXPECT_EQ(std::signbit(F16ToFloat(FloatToF16(input))), std::signbit(input));
  }
}

TEST(HalfTest, EveryValueComesBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    if (std::isnan(F16ToFloat(half)) || std::isnan(Bf16ToFloat(half))) continue;
    ASSERT_EQ(FloatToF16(F16ToFloat(half)), half);
    ASSERT_EQ(FloatToBf16(Bf16ToFloat(half)), half);
  }
  EXPECT_EQ(F16ToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(F16ToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(F16ToFloat(0xfc00), -std::numeric_limits<float>::infinity());
}

TEST(DTypeTest, NamesGoBothWays) {
  for (const DType dtype : kAllDTypes) EXPECT_EQ(DTypeFromName(DTypeName(dtype)), dtype);
  EXPECT_EQ(DTypeName(DType::kBF16), "bf16");
  EXPECT_EQ(DTypeFromName("F16"), std::nullopt);
  EXPECT_EQ(DTypeFromName(""), std::nullopt);
}

TEST(DTypeTest, RowBytesCountWholeBlocks) {
  EXPECT_EQ(RowBytes(DType::kF32, 3), 12);
  EXPECT_EQ(RowBytes(DType::kQ4_1, 576), 360);
  EXPECT_EQ(RowBytes(DType::kQ8_0, int64_t{1} << 32), (int64_t{1} << 27) * 34);
}

}  // namespace
}  // namespace headway
