#include "runtime/checkpoint/gguf_file.h"

#include <functional>
#include <limits>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/ggml_types.h"
#include "runtime/checkpoint/gguf_metadata.h"
#include "runtime/checkpoint/test_images.h"

namespace headway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::span<const std::byte> Bytes(const std::string& image) {
  return std::as_bytes(std::span(image));
}

// Reads all that a file offers; returns a sum, so that nothing is left out.
int64_t ReadEverything(const GgufContents& contents) {
  int64_t sum = 0;
  const GgufMetadata metadata("image", contents.keys);
  for (const auto& [name, value] : contents.keys) {
    sum += metadata.Int(name).ok() + metadata.Double(name).ok() + metadata.Bool(name).ok();
    if (const auto text = metadata.String(name); text.ok()) sum += text->size();
    if (const auto texts = metadata.Strings(name); texts.ok()) sum += texts->size();
    if (const auto ints = metadata.Ints(name); ints.ok()) sum += ints->size();
    if (const auto doubles = metadata.Doubles(name); doubles.ok()) sum += doubles->size();
  }
  for (const auto& [name, tensor] : contents.tensors) {
    for (const std::byte b : tensor.bytes) sum += std::to_integer<int>(b);
  }
  return sum;
}

TEST(GgufFileTest, ReadsEveryTypeOfValue) {
  const std::string image = SmallGguf().Build();
  const absl::StatusOr<GgufContents> contents = ParseGguf(Bytes(image));
  ASSERT_TRUE(contents.ok()) << contents.status();
  const GgufMetadata m("image", contents->keys);
  EXPECT_EQ(*m.String("general.architecture"), "llama");
  EXPECT_EQ(*m.Int("u8"), 200);
  EXPECT_EQ(*m.Int("i8"), -100);
  EXPECT_EQ(*m.Int("u16"), 60000);
  EXPECT_EQ(*m.Int("i16"), -30000);
  EXPECT_EQ(*m.Int("u32"), 4000000000);
  EXPECT_EQ(*m.Int("i32"), -2000000000);
  EXPECT_EQ(*m.Int("u64"), int64_t{1} << 40);
  EXPECT_EQ(*m.Int("i64"), -5000000000);
  EXPECT_EQ(*m.Double("f32"), double{0.1f});
  EXPECT_EQ(*m.Double("f64"), 0.1);
  EXPECT_TRUE(*m.Bool("yes"));
  EXPECT_FALSE(*m.Bool("no"));
  EXPECT_THAT(*m.Strings("texts"), ElementsAre("a", "", "cd"));
  EXPECT_THAT(*m.Ints("ints"), ElementsAre(7, -8, 9));
  EXPECT_THAT(*m.Doubles("floats"), ElementsAre(0.5, -2.0));
  EXPECT_THAT(*m.Ints("none"), IsEmpty());
  EXPECT_TRUE(m.Has("nested"));
  EXPECT_THAT(std::string(m.Ints("nested").status().message()),
              HasSubstr("element 0 of key 'nested' is a list"));
}

TEST(GgufFileTest, ReadsTensors) {
  const std::string image = SmallGguf().Build();
  const GgufContents contents = *ParseGguf(Bytes(image));
  ASSERT_EQ(contents.tensors.size(), 3u);
  const GgufTensor& linear = contents.tensors.at("linear");
  EXPECT_EQ(linear.type, 3u);
  EXPECT_THAT(linear.shape, ElementsAre(3, 64));  // outermost first
  EXPECT_EQ(linear.bytes.size(), 3u * 2 * 20);
  const GgufTensor& last = contents.tensors.at("last");
  EXPECT_EQ(last.bytes.data() + last.bytes.size(), Bytes(image).data() + image.size());
  EXPECT_EQ(linear.bytes[0], static_cast<std::byte>(32 * 37 % 256));
}

TEST(GgufFileTest, Version2IsReadAlike) {
  GgufImage image = SmallGguf();
  image.version = 2;
  const std::string bytes = image.Build();
  EXPECT_EQ(ReadEverything(*ParseGguf(Bytes(bytes))),
            ReadEverything(*ParseGguf(Bytes(SmallGguf().Build()))));
}

TEST(GgufFileTest, AFileOfKeysAloneIsWhole) {
  const std::string image = GgufImage().U32("a", 1).Build();
  EXPECT_TRUE(ParseGguf(Bytes(image)).ok());
}

TEST(GgufFileTest, AlignmentMovesTheData) {
  GgufImage image;
  image.U32("general.alignment", 256).Tensor("t", {64}, 0, 256);
  image.alignment = 256;
  image.data = std::string(512, 'x');
  const std::string bytes = image.Build();
  const GgufContents contents = *ParseGguf(Bytes(bytes));
  EXPECT_EQ(contents.tensors.at("t").bytes.data() - Bytes(bytes).data(), 256 + 256);
}

TEST(GgufFileTest, ATypeItDoesNotKnowHarmsNoOtherTensor) {
  GgufImage image;
  image.Tensor("strange", {32}, 999, 0).Tensor("plain", {4}, 0, 32);
  image.data = std::string(48, 'x');
  const std::string bytes = image.Build();
  const GgufContents contents = *ParseGguf(Bytes(bytes));
  EXPECT_EQ(contents.tensors.at("strange").type, 999u);
  EXPECT_EQ(contents.tensors.at("plain").bytes.size(), 16u);
}

// Each prefix in memory of exactly its size, where AddressSanitizer sees the first byte too far.
TEST(GgufFileTest, EveryTruncationIsRefused) {
  const std::string image = SmallGguf().Build();
  for (size_t size = 0; size < image.size(); ++size) {
    const auto prefix = std::make_unique<std::byte[]>(size);
    std::copy_n(Bytes(image).data(), size, prefix.get());
    const absl::Status status = ParseGguf({prefix.get(), size}).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << size << ": " << status;
    ASSERT_THAT(std::string(status.message()), HasSubstr("truncated"));
  }
}

TEST(GgufFileTest, NoFlippedBitDoesHarm) {
  const std::string image = SmallGguf().Build();
  const size_t header = image.size() - SmallGguf().data.size();
  int accepted = 0;
  for (size_t bit = 0; bit < header * 8; ++bit) {
    std::string flipped = image;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const absl::StatusOr<GgufContents> contents = ParseGguf(Bytes(flipped));
    if (!contents.ok()) {
      ASSERT_FALSE(contents.status().message().empty());
      continue;
    }
    ++accepted;
    ReadEverything(*contents);
  }
  // Many flips are as good as the original: other values, other names.
  EXPECT_GT(accepted, 100);
}

struct Malformed {
  const char* name;
  std::function<std::string()> build;
  const char* message;
};

class GgufMalformedTest : public testing::TestWithParam<Malformed> {};

TEST_P(GgufMalformedTest, OneClearError) {
  const std::string image = GetParam().build();
  const absl::Status status = ParseGguf(Bytes(image)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

constexpr uint64_t kHuge = uint64_t{1} << 62;
constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

std::string With(const std::function<void(GgufImage&)>& change) {
  GgufImage image = SmallGguf();
  change(image);
  return image.Build();
}

// The value of a key: `depth` arrays, one in the other, around an empty one.
std::string NestedArrays(int depth) {
  std::string value;
  for (int i = 0; i < depth; ++i) {
    value += Raw(static_cast<uint32_t>(GgufType::kArray)) + Raw<uint64_t>(1);
  }
  return value + Raw(static_cast<uint32_t>(GgufType::kUint8)) + Raw<uint64_t>(0);
}

TEST(GgufFileTest, ArraysNestEightDeepAndNoDeeper) {
  const auto parse = [](int arrays) {
    const std::string image =
        GgufImage().Key("deep", GgufType::kArray, NestedArrays(arrays - 1)).Build();
    return ParseGguf(Bytes(image)).status();
  };
  EXPECT_TRUE(parse(8).ok()) << parse(8);
  EXPECT_EQ(parse(9), absl::InvalidArgumentError("key 'deep': arrays nested more than 8 deep"));
}

// A file with one tensor over `data_bytes` of data.
std::string OneTensor(const std::vector<uint64_t>& dimensions, uint32_t type, uint64_t offset,
                      size_t data_bytes = 64) {
  GgufImage image;
  image.Tensor("blk.0.w", dimensions, type, offset);
  image.data = std::string(data_bytes, 'x');
  return image.Build();
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GgufMalformedTest,
    testing::Values(
        Malformed{"Empty", [] { return std::string(); }, "the GGUF magic"},
        Malformed{"Magic", [] { return With([](auto& i) { i.magic = "GG\xff\n"; }); },
                  "it begins with 'GG\\xff\\n', not 'GGUF'"},
        Malformed{"Version1", [] { return With([](auto& i) { i.version = 1; }); },
                  "GGUF version 1; versions 2 and 3"},
        Malformed{"BigEndian", [] { return With([](auto& i) { i.version = 0x03000000; }); },
                  "big-endian"},
        Malformed{"KeyCount", [] { return With([](auto& i) { i.key_count = kHuge; }); },
                  "4611686018427387904 keys"},
        Malformed{"KeyCountMost", [] { return With([](auto& i) { i.key_count = kMost; }); },
                  "18446744073709551615 keys"},
        Malformed{"TensorCount", [] { return With([](auto& i) { i.tensor_count = kMost; }); },
                  "18446744073709551615 tensors"},
        Malformed{"OneKeyMore",
                  [] {
                    GgufImage image = GgufImage().Text("a", "some text or other");
                    ++image.key_count;
                    return image.Build();
                  },
                  "key 2 of 2: the file ends after"},
        Malformed{"KeyNameLength",
                  [] {
                    return With([](auto& i) {
                      i.keys = Raw(kMost) + i.keys;
                      ++i.key_count;
                    });
                  },
                  "the name of a key (18446744073709551615 bytes"},
        Malformed{"KeyNameTooLong",
                  [] { return With([](auto& i) { i.U32(std::string(70000, 'k'), 1); }); },
                  "a name of 70000 bytes; the limit is 65535"},
        Malformed{"EmptyKeyName", [] { return With([](auto& i) { i.U32("", 1); }); },
                  "an empty name"},
        Malformed{"KeyNameNotUtf8", [] { return With([](auto& i) { i.U32("caf\xe9", 1); }); },
                  "the name 'caf\\xe9' is not UTF-8"},
        Malformed{"KeyTwice", [] { return With([](auto& i) { i.U32("u32", 1); }); },
                  "key 'u32' stands twice"},
        Malformed{"ValueType",
                  [] { return With([](auto& i) { i.Key("odd", GgufType{13}, "xxxx"); }); },
                  "key 'odd': unknown value type 13"},
        Malformed{"Bool", [] { return With([](auto& i) { i.Key("odd", GgufType::kBool, "\2"); }); },
                  "key 'odd': a boolean of value 2"},
        Malformed{
            "BoolInArray",
            [] { return With([](auto& i) { i.Array("odd", GgufType::kBool, 2, "\1\x80"); }); },
            "key 'odd': a boolean of value 128"},
        Malformed{"TextLength",
                  [] { return With([](auto& i) { i.Key("odd", GgufType::kString, Raw(kHuge)); }); },
                  "key 'odd': the file ends"},
        Malformed{
            "ArrayLength",
            [] { return With([](auto& i) { i.Array("odd", GgufType::kUint64, kHuge, ""); }); },
            "key 'odd': the file claims 4611686018427387904 array elements"},
        Malformed{"ArrayLengthTimesSizeWrapsRound",
                  [] {
                    return With([](auto& i) {
                      i.Array("odd", GgufType::kUint64, (uint64_t{1} << 61) + 1, "12345678");
                    });
                  },
                  "key 'odd': the file claims"},
        Malformed{
            "TextsLength",
            [] { return With([](auto& i) { i.Array("odd", GgufType::kString, kMost, ""); }); },
            "key 'odd': the file claims"},
        Malformed{"ArraysLength",
                  [] { return With([](auto& i) { i.Array("odd", GgufType::kArray, kMost, ""); }); },
                  "key 'odd': the file claims"},
        Malformed{"ElementType",
                  [] { return With([](auto& i) { i.Array("odd", GgufType{77}, 1, "xxxxxxxx"); }); },
                  "key 'odd': unknown value type 77"},
        Malformed{"DepthBomb",
                  [] {
                    return With(
                        [](auto& i) { i.Key("odd", GgufType::kArray, NestedArrays(100000)); });
                  },
                  "key 'odd': arrays nested more than 8 deep"},
        Malformed{"AlignmentType",
                  [] {
                    return With([](auto& i) {
                      i.Key("general.alignment", GgufType::kUint64, Raw<uint64_t>(32));
                    });
                  },
                  "key 'general.alignment' is a uint64, wanted a uint32"},
        Malformed{"AlignmentZero",
                  [] { return With([](auto& i) { i.U32("general.alignment", 0); }); },
                  "key 'general.alignment' is 0, wanted a power of two"},
        Malformed{"AlignmentOdd",
                  [] { return With([](auto& i) { i.U32("general.alignment", 24); }); },
                  "key 'general.alignment' is 24"},
        Malformed{"AlignmentHuge",
                  [] { return With([](auto& i) { i.U32("general.alignment", 1u << 31); }); },
                  "tensor '"},
        Malformed{"Dimensions",
                  [] {
                    return OneTensor({1, 1, 1, 1, 1}, 0, 0);
                  },
                  "tensor 'blk.0.w': 5 dimensions; there must be 1 to 4"},
        Malformed{"NoDimensions", [] { return OneTensor({}, 0, 0); },
                  "tensor 'blk.0.w': 0 dimensions; there must be 1 to 4"},
        Malformed{"DimensionsMost",
                  [] {
                    return With([](auto& i) {
                      i.tensors = GgufString("t") + Raw(~0u) + i.tensors;
                      ++i.tensor_count;
                    });
                  },
                  "tensor 't': 4294967295 dimensions"},
        Malformed{"InnerDimensionZero",
                  [] {
                    return OneTensor({0, 4}, 0, 0);
                  },
                  "tensor 'blk.0.w': a dimension of 0 values"},
        // The smallest such file: its whole data section is empty, as the shape says.
        Malformed{"OuterDimensionZero",
                  [] {
                    const std::string bytes = GgufImage().Tensor("t", {1, 0}, 0, 0).Build();
                    EXPECT_EQ(bytes.size(), 65u);
                    return bytes;
                  },
                  "tensor 't': a dimension of 0 values"},
        Malformed{"DimensionBeyond63Bits", [] { return OneTensor({kMost}, 0, 0); },
                  "tensor 'blk.0.w': a dimension of 18446744073709551615 values"},
        Malformed{"ProductOfDimensions",
                  [] {
                    return OneTensor({uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0);
                  },
                  "tensor 'blk.0.w': the shape [4294967296, 4294967296] has more than 2^63 - 1"},
        Malformed{"ProductWrapsToLittle",
                  [] {
                    return OneTensor({(uint64_t{1} << 62) + 1, 4}, 0, 0);
                  },
                  "has more than 2^63 - 1 elements"},
        Malformed{"BytesBeyond63Bits", [] { return OneTensor({uint64_t{1} << 61}, 28, 0); },
                  "takes more than 2^63 - 1 bytes"},
        Malformed{"PartOfABlock",
                  [] {
                    return OneTensor({48, 1}, 8, 0);
                  },
                  "tensor 'blk.0.w': a row of 48 values is not whole blocks of 32, as type Q8_0"},
        Malformed{"Offset", [] { return OneTensor({4}, 0, uint64_t{1} << 40); },
                  "tensor 'blk.0.w': 16 bytes at offset 1099511627776 do not fit the 64 bytes"},
        Malformed{"OffsetPlusSizeWrapsRound", [] { return OneTensor({8}, 0, kMost - 31); },
                  "tensor 'blk.0.w': 32 bytes at offset 18446744073709551584 do not fit"},
        Malformed{"OneByteTooFar", [] { return OneTensor({9}, 0, 32, 67); },
                  "tensor 'blk.0.w': 36 bytes at offset 32 do not fit the 67 bytes"},
        Malformed{"OffsetNotAligned", [] { return OneTensor({4}, 0, 8); },
                  "tensor 'blk.0.w': offset 8 is not a multiple of the alignment 32"},
        Malformed{"UnknownTypeOutside", [] { return OneTensor({4}, 500, 96); },
                  "tensor 'blk.0.w': 0 bytes at offset 96 do not fit"},
        Malformed{"Overlap", [] { return With([](auto& i) { i.Tensor("thief", {5}, 0, 128); }); },
                  "tensor 'thief': its bytes from offset 128 overlap those of tensor 'linear'"},
        Malformed{"TensorTwice",
                  [] {
                    return With([](auto& i) {
                      i.Tensor("norm", {1}, 0, 192);
                      i.data.resize(200);
                    });
                  },
                  "tensor 'norm' stands twice"},
        Malformed{"TensorNameNotUtf8",
                  [] { return With([](auto& i) { i.Tensor("\xc0\x80", {1}, 0, 0); }); },
                  "tensor 4 of 4: the name '\\xc0\\x80' is not UTF-8"},
        Malformed{"TensorNameEmpty", [] { return With([](auto& i) { i.Tensor("", {1}, 0, 0); }); },
                  "tensor 4 of 4: an empty name"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(GgmlTypesTest, UnknownIdsGiveNull) {
  EXPECT_STREQ(FindGgmlType(14)->name, "Q6_K");
  EXPECT_EQ(FindGgmlType(14)->dtype, std::nullopt);
  EXPECT_EQ(FindGgmlType(4), nullptr);  // withdrawn from GGML
  EXPECT_EQ(FindGgmlType(~0u), nullptr);
}

}  // namespace
}  // namespace headway
