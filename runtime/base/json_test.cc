#include "runtime/base/json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/utf8.h"

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

// A message may go to a client, in a protocol that takes no other text.
TEST(JsonTest, ErrorsAreShortUtf8) {
  const std::string letters(10'000, 'x');
  for (const std::string& text :
       {std::string("\xff"), std::string("{\"a\xff\": 1}"), std::string("[\xc3\xa9]"),
        std::string("\"\xc3\xa9\xc3"), "\"" + letters + "\n\"", "[" + letters + "]",
        "1" + std::string(10'000, '0'), "{\"\xff" + letters + "\": 1}"}) {
    const absl::Status status = ParseJson(text).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    const std::string message(status.message());
    EXPECT_TRUE(IsUtf8(message)) << text;
    EXPECT_LT(message.size(), 400u) << message;
  }
  EXPECT_EQ(
      ParseJson("{\"name\": nul}").status().message(),
      "not valid JSON: at byte 13: parse error at line 1, column 13: syntax error while parsing "
      "value - invalid literal, after '{\\\"name\\\": nul}'");
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
