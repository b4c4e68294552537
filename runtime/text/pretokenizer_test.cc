#include "runtime/text/pretokenizer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/text/known_pretokenizers.h"

namespace headway::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Split(const std::vector<SplitStep>& steps, std::string_view text) {
  absl::StatusOr<Pretokenizer> pretokenizer = Pretokenizer::Create(steps);
  if (!pretokenizer.ok()) return {std::string(pretokenizer.status().message())};
  std::vector<std::string_view> pieces;
  const absl::Status status = pretokenizer->Split(text, &pieces);
  if (!status.ok()) return {std::string(status.message())};
  return {pieces.begin(), pieces.end()};
}

std::vector<std::string> SplitLike(std::string_view name, std::string_view text) {
  return Split(FindPretokenizer(name)->splits, text);
}

TEST(PretokenizerTest, Gpt2) {
  EXPECT_THAT(SplitLike("gpt-2", "I'll say  it's 2007!!\n\n  0"),
              ElementsAre("I", "'ll", " say", " ", " it", "'s", " 2007", "!!", "\n\n ", " 0"));
  EXPECT_THAT(SplitLike("gpt-2", ""), ElementsAre());
  EXPECT_THAT(SplitLike("gpt-2", "   "), ElementsAre("   "));
}

TEST(PretokenizerTest, SmollmTakesDigitsOffFirst) {
  EXPECT_THAT(SplitLike("smollm", "\n\n  07 a"), ElementsAre("\n\n  ", "0", "7", " a"));
}

TEST(PretokenizerTest, Llama3AndQwen2DifferInDigits) {
  EXPECT_THAT(SplitLike("llama-bpe", "a1234 'Sx\r\n  y"),
              ElementsAre("a", "123", "4", " '", "Sx", "\r\n", " ", " y"));
  EXPECT_THAT(SplitLike("qwen2", "a12'S\n"), ElementsAre("a", "1", "2", "'S", "\n"));
}

TEST(PretokenizerTest, EachModelCutsNumbersAndContractionsItsOwnWay) {
  EXPECT_THAT(SplitLike("gpt-2", "1234567"), ElementsAre("1234567"));
  EXPECT_THAT(SplitLike("llama-bpe", "1234567"), ElementsAre("123", "456", "7"));
  EXPECT_THAT(SplitLike("qwen2", "1234567"), ElementsAre("1", "2", "3", "4", "5", "6", "7"));
  EXPECT_THAT(SplitLike("smollm", "1234567"), ElementsAre("1", "2", "3", "4", "5", "6", "7"));
  EXPECT_THAT(SplitLike("gpt-2", "DON'T"), ElementsAre("DON", "'", "T"));
  EXPECT_THAT(SplitLike("llama-bpe", "DON'T"), ElementsAre("DON", "'T"));
  EXPECT_THAT(SplitLike("qwen2", "DON'T"), ElementsAre("DON", "'T"));
}

TEST(PretokenizerTest, LongSFoldsToS) {
  EXPECT_THAT(SplitLike("qwen2", "it'\xc5\xbf"), ElementsAre("it", "'\xc5\xbf"));
}

TEST(PretokenizerTest, UnknownNamesAreNamed) {
  const absl::Status status = FindPretokenizer("made-up").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'made-up'"));
}

TEST(PretokenizerTest, WhiteSpaceIsUnicodes) {
  // U+0085 and U+3000 are white space; U+180E and U+001F are not.
  EXPECT_THAT(Split({{"\\s+"}}, "a\xc2\x85\xe3\x80\x80z"),
              ElementsAre("a", "\xc2\x85\xe3\x80\x80", "z"));
  EXPECT_THAT(Split({{"\\s+"}}, "a\xe1\xa0\x8ez"), ElementsAre("a\xe1\xa0\x8ez"));
  EXPECT_THAT(Split({{"[^\\S]+"}}, "a\x1f z"), ElementsAre("a\x1f", " ", "z"));
}

TEST(PretokenizerTest, EachStepSeesOnlyItsPiece) {
  // The look-ahead of the second step ends at the piece.
  EXPECT_THAT(Split({{"b"}, {"a(?!b)"}}, "xab"), ElementsAre("x", "a", "b"));
}

TEST(PretokenizerTest, GapsCanBeDropped) {
  EXPECT_THAT(Split({{.pattern = "\\d+", .drop_gaps = true}}, "a12b3"), ElementsAre("12", "3"));
}

TEST(PretokenizerTest, TranslatesOniguruma) {
  EXPECT_EQ(*PatternForPcre2("[^\\s\\w]\\S"),
            "[^\\p{White_Space}\\p{L}\\p{M}\\p{Nd}\\p{Pc}]\\P{White_Space}");
  EXPECT_EQ(*PatternForPcre2("\\u00e9\\\\s[a$^]$"), "\\x{00e9}\\\\s[a$^](?=\\n|\\z)");
  EXPECT_EQ(*PatternForPcre2("[[:alpha:]x]"), "[[:alpha:]x]");
  for (const char* pattern : {"[a&&b]", "[a[b]]", "\\h", "[\\W]", "[]a]", "\\u12", "[[:alpha"}) {
    EXPECT_EQ(PatternForPcre2(pattern).status().code(), absl::StatusCode::kInvalidArgument)
        << pattern;
  }
}

TEST(PretokenizerTest, BadPatternsAreNamed) {
  const absl::Status status = Pretokenizer::Create({{"a(b"}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a(b"));
  EXPECT_FALSE(Pretokenizer::Create({{std::string(70'000, 'a')}}).ok());
}

TEST(PretokenizerTest, EmptyMatchesCutNothing) {
  EXPECT_THAT(Split({{"x*"}}, "axxb"), ElementsAre("a", "xx", "b"));
}

TEST(PretokenizerTest, ExponentialPatternsGiveUp) {
  absl::StatusOr<Pretokenizer> pretokenizer = Pretokenizer::Create({{"(?:a+)+[bd]"}});
  ASSERT_TRUE(pretokenizer.ok());
  std::vector<std::string_view> pieces;
  const std::string text = std::string(60, 'a') + "c";
  const absl::Status status = pretokenizer->Split(text, &pieces);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("(?:a+)+[bd]"));
}

TEST(PretokenizerTest, DeepBacktrackingFallsBackFromJit) {
  // One frame for each repetition: more than JIT's stack holds.
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "ab";
  EXPECT_THAT(Split({{"(?:a(b)?)+"}}, text), ElementsAre(text));
}

}  // namespace
}  // namespace headway::text
