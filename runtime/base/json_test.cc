#include "runtime/base/json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(JsonTest, ParsesWhatTheLibraryParses) {
  for (const char* text :
       {"null", "true", "-5", "18446744073709551615", "0.25", "\"caf\u00e9 \\u00e9\"", "[]", "{}",
        R"( {"a": [1, [2, {"b": null}], "x"], "": {"a": false}} )"}) {
    const absl::StatusOr<json> value = ParseJson(text);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value, json::parse(text)) << text;
  }
}

TEST(JsonTest, RefusesWhatIsNotJson) {
  for (const char* text :
       {"", " ", "{", "[1,]", "{\"a\" 1}", "NaN", "[Infinity]", "nul", "1 2", "{} //", "'a'",
        "\"\xff\"", "\"\xed\xa0\x80\"", "\"\\ud800\"", "01", "1e999", "\"a\nb\""}) {
    const absl::Status status = ParseJson(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("not valid JSON: at byte ")) << text;
  }
}

TEST(JsonTest, RefusesANameTwiceInOneObject) {
  EXPECT_EQ(ParseJson(R"({"a": 1, "b": {"a": 2}, "a": 3})").status().message(),
            "not valid JSON: the name 'a' stands twice in one object");
  EXPECT_TRUE(ParseJson(R"([{"a": 1}, {"a": 2}])").ok());
}

TEST(JsonTest, BoundsTheDepth) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(ParseJson(nested(kMaxJsonDepth)).ok());
  for (const int depth : {kMaxJsonDepth + 1, 1'000'000}) {
    EXPECT_EQ(ParseJson(nested(depth)).status().message(),
              "not valid JSON: nested more than 64 levels deep");
  }
}

TEST(JsonTest, EveryTruncationIsRefused) {
  const std::string text = R"({"a": [1, {"b": "x\u00e9"}], "c": true})";
  for (size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(ParseJson(text.substr(0, n)).ok()) << n;
}

}  // namespace
}  // namespace headway
