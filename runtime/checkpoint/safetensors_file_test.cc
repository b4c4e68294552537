#include "runtime/checkpoint/safetensors_file.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/test_images.h"

namespace headway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::span<const std::byte> Bytes(const std::string& image) {
  return std::as_bytes(std::span(image));
}

constexpr char kHeader[] = R"({"__metadata__":{"format":"pt"},)"
                           R"("b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                           R"("a":{"dtype":"I64","shape":[],"data_offsets":[24,32]},)"
                           R"("none":{"dtype":"BF16","shape":[0,7],"data_offsets":[32,32]},)"
                           R"("new":{"dtype":"F4_X","shape":[5],"data_offsets":[32,35]}}  )";

std::string SmallImage() { return SafetensorsImage(kHeader, std::string(35, 'x')); }

TEST(SafetensorsFileTest, ReadsEntriesOfAnyType) {
  const std::string image = SmallImage();
  const absl::StatusOr<SafetensorsEntries> entries = ParseSafetensors(Bytes(image));
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 4u);
  EXPECT_THAT(entries->at("b").shape, ElementsAre(2, 3));
  EXPECT_EQ(entries->at("b").dtype, "F32");
  EXPECT_EQ(entries->at("b").bytes.size(), 24u);
  EXPECT_THAT(entries->at("a").shape, IsEmpty());
  EXPECT_EQ(entries->at("a").bytes.data() - entries->at("b").bytes.data(), 24);
  EXPECT_EQ(entries->at("none").bytes.size(), 0u);
  EXPECT_EQ(entries->at("new").bytes.size(), 3u);
}

TEST(SafetensorsFileTest, EveryTruncationIsRefused) {
  const std::string image = SmallImage();
  for (size_t size = 0; size < image.size(); ++size) {
    const auto prefix = std::make_unique<std::byte[]>(size);
    std::copy_n(Bytes(image).data(), size, prefix.get());
    const absl::Status status = ParseSafetensors({prefix.get(), size}).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << size << ": " << status;
  }
}

TEST(SafetensorsFileTest, NoFlippedBitDoesHarm) {
  const std::string image = SmallImage();
  int accepted = 0;
  for (size_t bit = 0; bit < (8 + sizeof(kHeader) - 1) * 8; ++bit) {
    std::string flipped = image;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const absl::StatusOr<SafetensorsEntries> entries = ParseSafetensors(Bytes(flipped));
    if (!entries.ok()) continue;
    ++accepted;
    for (const auto& [name, entry] : *entries) {
      for (const std::byte b : entry.bytes) ASSERT_EQ(b, std::byte{'x'});
    }
  }
  EXPECT_GT(accepted, 10);
}

TEST(SafetensorsFileTest, AFileOfMetadataAloneIsWhole) {
  for (const char* header : {R"({"__metadata__":{"format":"pt"}}  )", "{}      "}) {
    const std::string image = SafetensorsImage(header, "");
    const absl::StatusOr<SafetensorsEntries> entries = ParseSafetensors(Bytes(image));
    ASSERT_TRUE(entries.ok()) << entries.status();
    EXPECT_THAT(*entries, IsEmpty());
  }
}

TEST(SafetensorsFileTest, OpenNamesTheFile) {
  const std::string folder = NewFolder();
  EXPECT_EQ(SafetensorsFile::Open(folder + "/none").status().code(), absl::StatusCode::kNotFound);
  const std::string path = WriteFile(folder, "x.safetensors", SmallImage().substr(0, 100));
  EXPECT_THAT(std::string(SafetensorsFile::Open(path).status().message()),
              testing::StartsWith(path + ": "));
}

TEST(SafetensorsFileTest, EntriesSurviveAMove) {
  const std::string path = WriteFile(NewFolder(), "x.safetensors", SmallImage());
  SafetensorsFile first = *SafetensorsFile::Open(path);
  const SafetensorsEntry* entry = first.Find("b");
  const SafetensorsFile second = std::move(first);
  EXPECT_EQ(second.Find("b"), entry);
  EXPECT_EQ(entry->bytes[0], std::byte{'x'});
  EXPECT_EQ(second.Find("c"), nullptr);
  EXPECT_EQ(second.file_bytes(), static_cast<int64_t>(SmallImage().size()));
}

struct Malformed {
  const char* name;
  std::string image;
  const char* message;
};

class SafetensorsMalformedTest : public testing::TestWithParam<Malformed> {};

TEST_P(SafetensorsMalformedTest, OneClearError) {
  const absl::Status status = ParseSafetensors(Bytes(GetParam().image)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

// One tensor "t" with this description, over 8 bytes of data.
std::string One(const std::string& description) {
  return SafetensorsImage("{\"t\":" + description + "}", "12345678");
}

std::string Two(const std::string& first_offsets, const std::string& second_offsets) {
  return SafetensorsImage(R"({"one":{"dtype":"U8","shape":[4],"data_offsets":)" + first_offsets +
                              R"(},"two":{"dtype":"U8","shape":[4],"data_offsets":)" +
                              second_offsets + "}}",
                          "12345678");
}

INSTANTIATE_TEST_SUITE_P(
    Cases, SafetensorsMalformedTest,
    testing::Values(
        Malformed{"HeaderHuge", Raw<uint64_t>(uint64_t{1} << 63) + "{}",
                  "its header would have 9223372036854775808 bytes; the limit is 100000000"},
        Malformed{"HeaderBeyondTheFile", Raw<uint64_t>(1000) + "{}",
                  "the safetensors header (1000 bytes at byte 8) does not fit"},
        Malformed{"NotJson", SafetensorsImage("hello", ""), "not valid JSON"},
        Malformed{"NotAnObject", SafetensorsImage("[1]", ""), "not a JSON object"},
        Malformed{"TextBehindTheObject", SafetensorsImage("{} x", ""), "not valid JSON"},
        Malformed{"NotUtf8", SafetensorsImage("{\"\xff\":1}", ""), "not valid JSON"},
        Malformed{"DepthBomb", SafetensorsImage(std::string(100000, '['), ""),
                  "nested more than 64 levels deep"},
        Malformed{"NameTwice",
                  SafetensorsImage(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                   R"("t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                                   ""),
                  "the name 't' stands twice"},
        // Readers disagree on which of two they take, so neither is taken, though each fits.
        Malformed{"NameTwiceForOtherBytes",
                  SafetensorsImage(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                   R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}  )",
                                   "12345678"),
                  "the name 'a' stands twice"},
        Malformed{"MetadataTwice",
                  SafetensorsImage(R"({"__metadata__":{},"__metadata__":{"format":"pt"}})", ""),
                  "the name '__metadata__' stands twice"},
        Malformed{"FieldTwice",
                  One(R"({"dtype":"U8","shape":[8],"data_offsets":[0,4],"data_offsets":[0,8]})"),
                  "the name 'data_offsets' stands twice"},
        Malformed{"DescriptionIsANumber", One("3"), "tensor 't': its description"},
        Malformed{"NoType", One(R"({"shape":[8],"data_offsets":[0,8]})"), "tensor 't': 'dtype'"},
        Malformed{"TypeIsANumber", One(R"({"dtype":1,"shape":[8],"data_offsets":[0,8]})"),
                  "tensor 't': 'dtype'"},
        Malformed{"NoShape", One(R"({"dtype":"U8","data_offsets":[0,8]})"),
                  "tensor 't': 'shape' is missing"},
        Malformed{"NegativeShape", One(R"({"dtype":"U8","shape":[-8],"data_offsets":[0,8]})"),
                  "tensor 't': 'shape' holds something else"},
        Malformed{"FractionalShape", One(R"({"dtype":"U8","shape":[8.5],"data_offsets":[0,8]})"),
                  "tensor 't': 'shape' holds something else"},
        Malformed{"ShapeBeyond63Bits",
                  One(R"({"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,8]})"),
                  "tensor 't': 'shape' holds something else"},
        Malformed{"NaNShape", One(R"({"dtype":"U8","shape":[NaN],"data_offsets":[0,8]})"),
                  "not valid JSON"},
        Malformed{"NoOffsets", One(R"({"dtype":"U8","shape":[8]})"),
                  "tensor 't': 'data_offsets' is missing"},
        Malformed{"ThreeOffsets", One(R"({"dtype":"U8","shape":[8],"data_offsets":[0,4,8]})"),
                  "tensor 't': 'data_offsets' is [0, 4, 8]"},
        Malformed{"OffsetsBackwards", One(R"({"dtype":"U8","shape":[8],"data_offsets":[8,0]})"),
                  "tensor 't': 'data_offsets' is [8, 0]"},
        Malformed{"OffsetsOutside", One(R"({"dtype":"U8","shape":[9],"data_offsets":[0,9]})"),
                  "tensor 't': its bytes 0 to 9 do not fit the 8 bytes"},
        Malformed{"ShapeAndOffsetsDisagree",
                  One(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
                  "tensor 't': the shape [3] of type 'F32' takes 12 bytes, but 'data_offsets' "
                  "spans 8"},
        Malformed{"ProductOverflows",
                  One(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
                  "tensor 't': the shape [4294967296, 4294967296] takes more than"},
        Malformed{"Overlap", Two("[0,4]", "[2,6]"), "tensor 'two': its bytes from 2 overlap"},
        Malformed{"SameBytes", Two("[4,8]", "[4,8]"), "its bytes from 4 leave a gap"},
        Malformed{"Gap",
                  SafetensorsImage(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                                   "12345678"),
                  "tensor 't': its bytes from 4 leave a gap"},
        Malformed{"BytesOfNone", One(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})"),
                  "4 bytes after the last tensor"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace headway
