// Streams of tokens' bytes to text and to stop strings, against golden cases.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/text/stop_strings.h"
#include "runtime/text/utf8.h"
#include "tests/shared_data.h"

namespace headway::text {
namespace {

using Json = nlohmann::json;

Json ReadJson(const std::string& path) { return Json::parse(std::ifstream(path)); }

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// What the golden cases call a special token.
bool LooksSpecial(const std::string& bytes) {
  return bytes.size() > 4 && bytes.substr(0, 2) == "<|" && bytes.substr(bytes.size() - 2) == "|>";
}

TEST(StreamTest, GoldenDeltas) {
  const Json golden = ReadJson(GoldenPath("text/streaming.json"));
  ASSERT_GE(golden["cases"].size(), 100u);
  for (const Json& c : golden["cases"]) {
    Utf8Stream stream;
    std::string text;
    for (size_t i = 0; i < c["token_bytes"].size(); ++i) {
      const std::string bytes = FromHex(c["token_bytes"][i].get<std::string>());
      std::string delta;
      if (!(c["skip_special"].get<bool>() && LooksSpecial(bytes))) stream.Feed(bytes, &delta);
      EXPECT_EQ(delta, c["deltas"][i].get<std::string>()) << c["name"] << " token " << i;
      text += delta;
    }
    std::string delta;
    stream.Finish(&delta);
    EXPECT_EQ(delta, c["final_delta"].get<std::string>()) << c["name"];
    EXPECT_EQ(text + delta, c["text"].get<std::string>()) << c["name"];
  }
}

TEST(StopStringsTest, GoldenCases) {
  const Json golden = ReadJson(GoldenPath("text/stops.json"));
  ASSERT_GE(golden["cases"].size(), 90u);
  for (const Json& c : golden["cases"]) {
    auto matcher = StopMatcher::Create(c["stops"].get<std::vector<std::string>>(),
                                       c["include_stop"].get<bool>());
    ASSERT_TRUE(matcher.ok()) << matcher.status();
    Utf8Stream stream;
    std::string text;
    size_t used = 0;
    std::string final_delta;
    for (const Json& hex : c["token_bytes"]) {
      std::string delta;
      stream.Feed(FromHex(hex.get<std::string>()), &delta);
      const std::string emitted = matcher->Feed(delta);
      ASSERT_LT(used, c["emitted"].size()) << c["name"];
      EXPECT_EQ(emitted, c["emitted"][used].get<std::string>()) << c["name"] << " token " << used;
      text += emitted;
      ++used;
      if (matcher->matched()) break;
    }
    if (!matcher->matched()) {
      std::string delta;
      stream.Finish(&delta);
      final_delta = matcher->Feed(delta);
      if (!matcher->matched()) final_delta += matcher->Finish();
    }
    EXPECT_EQ(final_delta, c["final_delta"].get<std::string>()) << c["name"];
    EXPECT_EQ(text + final_delta, c["text"].get<std::string>()) << c["name"];
    EXPECT_EQ(used, c["tokens_used"].get<size_t>()) << c["name"];
    EXPECT_EQ(matcher->matched(), c["finish_reason"] == "stop") << c["name"];
    if (matcher->matched()) {
      EXPECT_EQ(matcher->match(), c["matched"].get<std::string>()) << c["name"];
    }
  }
}

TEST(StopStringsTest, AfterAMatchNothingMoreComes) {
  auto matcher = StopMatcher::Create({"stop"});
  EXPECT_EQ(matcher->Feed("a sto"), "a ");
  EXPECT_EQ(matcher->Feed("p it"), "");
  EXPECT_TRUE(matcher->matched());
  EXPECT_EQ(matcher->Feed("more"), "");
  EXPECT_EQ(matcher->Finish(), "");
}

TEST(StopStringsTest, RefusesBadStops) {
  using Stops = std::vector<std::string>;
  for (const Stops& stops : {Stops{""}, Stops{"a", ""}, Stops{"\xff"},
                             Stops{std::string(StopMatcher::kMaxStopBytes + 1, 'a')},
                             Stops(StopMatcher::kMaxStops + 1, "a")}) {
    EXPECT_EQ(StopMatcher::Create(stops).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(StopMatcher::Create(Stops(StopMatcher::kMaxStops, "a")).ok());
}

TEST(StopStringsTest, HostileStopsTakeLinearTime) {
  auto matcher = StopMatcher::Create({std::string(4000, 'a') + "b", std::string(2000, 'a') + "c"});
  std::string out = matcher->Feed(std::string(1'000'000, 'a'));
  EXPECT_EQ(out.size(), 1'000'000u - 4000);
  EXPECT_FALSE(matcher->matched());
  EXPECT_EQ(matcher->Feed("c"), std::string(2000, 'a'));
  EXPECT_TRUE(matcher->matched());
}

}  // namespace
}  // namespace headway::text
