#include "runtime/checkpoint/metadata.h"

#include <limits>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/gguf_metadata.h"
#include "runtime/checkpoint/json_metadata.h"
#include "runtime/checkpoint/test_images.h"

namespace headway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<JsonMetadata> Json(std::string_view text) {
  absl::StatusOr<std::unique_ptr<JsonMetadata>> metadata =
      JsonMetadata::Parse("folder/config.json", text);
  EXPECT_TRUE(metadata.ok()) << metadata.status();
  return *std::move(metadata);
}

TEST(JsonMetadataTest, DotsDescendIntoObjects) {
  const auto m = Json(R"({"rope_scaling": {"factor": 8, "more": {"type": "yarn"}}, "a": 1})");
  EXPECT_EQ(*m->Int("rope_scaling.factor"), 8);
  EXPECT_EQ(*m->String("rope_scaling.more.type"), "yarn");
  EXPECT_TRUE(m->Has("rope_scaling"));
  EXPECT_FALSE(m->Has("rope_scaling.type"));
  EXPECT_FALSE(m->Has("a.b"));
  EXPECT_FALSE(m->Has(""));
  EXPECT_FALSE(m->Has("."));
  EXPECT_FALSE(m->Has("rope_scaling."));
}

TEST(JsonMetadataTest, NullIsAsGoodAsAbsent) {
  const auto m = Json(R"({"rope_scaling": null})");
  EXPECT_FALSE(m->Has("rope_scaling"));
  EXPECT_FALSE(m->Has("rope_scaling.factor"));
  EXPECT_EQ(m->Int("rope_scaling").status().code(), absl::StatusCode::kNotFound);
}

TEST(JsonMetadataTest, Lists) {
  const auto m = Json(R"({"eos": [2, 3], "archs": ["A", "B"], "f": [1, 0.5], "mixed": [1, null]})");
  EXPECT_THAT(*m->Ints("eos"), ElementsAre(2, 3));
  EXPECT_THAT(*m->Strings("archs"), ElementsAre("A", "B"));
  EXPECT_THAT(*m->Doubles("f"), ElementsAre(1, 0.5));
  EXPECT_EQ(m->Ints("f").status().message(),
            "folder/config.json: element 1 of key 'f' is 0.5, wanted an integer");
  EXPECT_THAT(std::string(m->Ints("mixed").status().message()),
              HasSubstr("element 1 of key 'mixed' is null"));
}

TEST(JsonMetadataTest, NotAnObject) {
  EXPECT_EQ(JsonMetadata::Parse("config.json", "[1]").status().message(),
            "config.json: wanted a JSON object, found a value of type array");
  EXPECT_THAT(std::string(JsonMetadata::Parse("config.json", "{").status().message()),
              testing::StartsWith("config.json: not valid JSON: at byte "));
}

TEST(MetadataTest, NumbersConvertWhereNothingIsLost) {
  const auto m = Json(R"({"whole": 1e4, "half": 0.5, "exact": 9007199254740992,
                          "inexact": 9007199254740993, "most": 9223372036854775807,
                          "beyond": 9223372036854775808, "far": 1e30, "least": -9223372036854775808,
                          "negative": -3})");
  EXPECT_EQ(*m->Int("whole"), 10000);
  EXPECT_EQ(*m->Double("whole"), 1e4);
  EXPECT_EQ(*m->Double("negative"), -3);
  EXPECT_EQ(*m->Double("exact"), 0x1p53);
  EXPECT_EQ(*m->Int("most"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(*m->Int("least"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*m->Double("least"), -0x1p63);
  EXPECT_EQ(*m->Double("far"), 1e30);
  for (const char* key : {"half", "beyond", "far"}) {
    EXPECT_EQ(m->Int(key).status().code(), absl::StatusCode::kInvalidArgument) << key;
  }
  for (const char* key : {"inexact", "most"}) {
    EXPECT_EQ(m->Double(key).status().code(), absl::StatusCode::kInvalidArgument) << key;
  }
}

TEST(MetadataTest, ErrorsNameKeyValueAndWantedType) {
  const auto m = Json(R"({"n": "12", "t": 7, "b": "true", "l": [1], "o": {}, "i": 3})");
  const auto message = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(message(m->Int("n").status()),
            "folder/config.json: key 'n' is the text '12', wanted an integer");
  EXPECT_EQ(message(m->Double("n").status()),
            "folder/config.json: key 'n' is the text '12', wanted a finite number");
  EXPECT_EQ(message(m->String("t").status()), "folder/config.json: key 't' is 7, wanted text");
  EXPECT_EQ(message(m->Bool("b").status()),
            "folder/config.json: key 'b' is the text 'true', wanted true or false");
  EXPECT_EQ(message(m->Bool("t").status()),
            "folder/config.json: key 't' is 7, wanted true or false");
  EXPECT_EQ(message(m->Int("l").status()),
            "folder/config.json: key 'l' is a list of 1 values, wanted an integer");
  EXPECT_EQ(message(m->Int("o").status()),
            "folder/config.json: key 'o' is an object, wanted an integer");
  EXPECT_EQ(message(m->Ints("i").status()),
            "folder/config.json: key 'i' is 3, wanted a list of integers");
  EXPECT_EQ(m->Int("absent").status(),
            absl::NotFoundError("folder/config.json: there is no key 'absent'"));
  EXPECT_EQ(m->Strings("absent").status().code(), absl::StatusCode::kNotFound);
}

TEST(GgufMetadataTest, SameRulesAsJson) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::string image = SmallGguf()
                                .Key("nan", GgufType::kFloat32, Raw(kNan))
                                .Array("nans", GgufType::kFloat32, 2, Raw(1.0f) + Raw(kNan))
                                .Build();
  const GgufContents contents = *ParseGguf(std::as_bytes(std::span(image)));
  const GgufMetadata m("file.gguf", contents.keys);
  EXPECT_EQ(m.Int("u64.most").status().message(),
            "file.gguf: key 'u64.most' is 18446744073709551615, wanted an integer");
  EXPECT_EQ(m.Double("nan").status().message(),
            "file.gguf: key 'nan' is nan, wanted a finite number");
  EXPECT_EQ(m.Doubles("nans").status().message(),
            "file.gguf: element 1 of key 'nans' is nan, wanted a finite number");
  EXPECT_EQ(m.Int("texts").status().message(),
            "file.gguf: key 'texts' is a list of 3 values of type string, wanted an integer");
  EXPECT_EQ(m.Strings("ints").status().message(),
            "file.gguf: element 0 of key 'ints' is 7, wanted text");
  EXPECT_EQ(*m.Double("i16"), -30000);
  EXPECT_THAT(*m.Doubles("ints"), ElementsAre(7, -8, 9));
  EXPECT_EQ(m.Int("yes").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace headway
