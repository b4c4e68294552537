#include "runtime/text/added_tokens.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Found = std::pair<std::string, int32_t>;

std::vector<Found> SplitRanges(const std::vector<AddedToken>& tokens, std::string_view text,
                               const std::vector<TextRange>& trusted) {
  std::vector<Found> found;
  for (const auto& segment : AddedTokens::Create(tokens)->Split(text, trusted)) {
    found.emplace_back(text.substr(segment.range.begin, segment.range.end - segment.range.begin),
                       segment.id);
  }
  return found;
}

std::vector<Found> SplitTrusted(const std::vector<AddedToken>& tokens, std::string_view text) {
  return SplitRanges(tokens, text, {{0, text.size()}});
}

const std::vector<AddedToken> kTokens = {
    {.id = 1, .text = "<|a|>"}, {.id = 2, .text = "<|ab|>"}, {.id = 3, .text = "<|a|>x"}};

TEST(AddedTokensTest, LeftmostLongest) {
  EXPECT_THAT(SplitTrusted(kTokens, "p<|a|>xq<|a|><|ab|>"),
              ElementsAre(Found("p", -1), Found("<|a|>x", 3), Found("q", -1), Found("<|a|>", 1),
                          Found("<|ab|>", 2)));
  EXPECT_THAT(SplitTrusted(kTokens, ""), ElementsAre());
  EXPECT_THAT(SplitTrusted(kTokens, "<<|a|"), ElementsAre(Found("<<|a|", -1)));
  EXPECT_THAT(SplitTrusted(kTokens, "<<|a|>"), ElementsAre(Found("<", -1), Found("<|a|>", 1)));
}

TEST(AddedTokensTest, OnlyWhereAllOfItIsTrusted) {
  const std::string text = "<|a|>x";
  EXPECT_THAT(SplitRanges(kTokens, text, {}), ElementsAre(Found(text, -1)));
  EXPECT_THAT(SplitRanges(kTokens, text, {{0, 4}}), ElementsAre(Found(text, -1)));
  EXPECT_THAT(SplitRanges(kTokens, text, {{1, 6}}), ElementsAre(Found(text, -1)));
  // The longer token would need the untrusted x.
  EXPECT_THAT(SplitRanges(kTokens, text, {{0, 5}}), ElementsAre(Found("<|a|>", 1), Found("x", -1)));
  EXPECT_THAT(SplitRanges(kTokens, "<|a|>.<|a|>.<|a|>", {{0, 2}, {6, 11}, {12, 16}}),
              ElementsAre(Found("<|a|>.", -1), Found("<|a|>", 1), Found(".<|a|>", -1)));
}

TEST(AddedTokensTest, SingleCharactersAndWhiteSpaceAreOrdinaryText) {
  const std::vector<AddedToken> tokens = {{.id = 1, .text = "\xc3\xb6", .special = false},
                                          {.id = 2, .text = "  ", .special = false},
                                          {.id = 3, .text = "<t>", .special = false},
                                          {.id = 4, .text = "!", .special = true}};
  EXPECT_THAT(SplitRanges(tokens, "a\xc3\xb6  <t>!", {}),
              ElementsAre(Found("a", -1), Found("\xc3\xb6", 1), Found("  ", 2), Found("<t>!", -1)));
}

TEST(AddedTokensTest, StripsAndSingleWords) {
  const std::vector<AddedToken> tokens = {{.id = 1, .text = "<l>", .lstrip = true},
                                          {.id = 2, .text = "<r>", .rstrip = true},
                                          {.id = 3, .text = "word", .single_word = true}};
  EXPECT_THAT(SplitTrusted(tokens, "a \xc2\xa0<l> b"),
              ElementsAre(Found("a", -1), Found(" \xc2\xa0<l>", 1), Found(" b", -1)));
  EXPECT_THAT(SplitTrusted(tokens, "a <r>\n \n<l>"),
              ElementsAre(Found("a ", -1), Found("<r>\n \n", 2), Found("<l>", 1)));
  EXPECT_THAT(SplitTrusted(tokens, "word sword word\xc3\xa9 word."),
              ElementsAre(Found("word", 3), Found(" sword word\xc3\xa9 ", -1), Found("word", 3),
                          Found(".", -1)));
}

TEST(AddedTokensTest, RefusesWhatCannotBeFound) {
  EXPECT_THAT(std::string(AddedTokens::Create({{.id = 7, .text = ""}}).status().message()),
              HasSubstr("added token 7 is empty"));
  EXPECT_FALSE(AddedTokens::Create({{.id = 7, .text = "\xff"}}).ok());
  EXPECT_FALSE(AddedTokens::Create({{.id = 7, .text = std::string(2 << 20, 'a')}}).ok());
}

TEST(AddedTokensTest, FindsByText) {
  const auto tokens = AddedTokens::Create(kTokens);
  EXPECT_EQ(tokens->Find("<|ab|>"), 2);
  EXPECT_EQ(tokens->Find("<|"), std::nullopt);
}

}  // namespace
}  // namespace headway::text
