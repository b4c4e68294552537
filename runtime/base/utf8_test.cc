#include "runtime/base/utf8.h"

#include "gtest/gtest.h"

namespace headway {
namespace {

TEST(IsUtf8Test, AcceptsWellFormedText) {
  for (const std::string& text :
       {std::string(), std::string("a\0b", 3), std::string("\x7f"), std::string("\xc2\x80"),
        std::string("\xdf\xbf"), std::string("\xe0\xa0\x80"), std::string("\xed\x9f\xbf"),
        std::string("\xee\x80\x80"), std::string("\xef\xbf\xbf"), std::string("\xf0\x90\x80\x80"),
        std::string("\xf4\x8f\xbf\xbf")}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
    EXPECT_TRUE(IsUtf8("x" + text + "y")) << text;
  }
}

TEST(IsUtf8Test, RefusesTheRest) {
  for (const std::string text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x7f", "\xe0\x9f\xbf", "\xe0\xa0",
        "\xed\xa0\x80", "\xef\xbf\xc0", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\xff", "\xf0\x90\x80"}) {
    EXPECT_FALSE(IsUtf8(text));
    EXPECT_FALSE(IsUtf8("x" + text));
    EXPECT_FALSE(IsUtf8(text + "y"));
  }
}

TEST(FindInvalidUtf8Test, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FindInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("a\xc3\xa9\xe4\xb8\x96\xf0\x9f\x98\x80"), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("\xf4\x8f\xbf\xbf"), std::nullopt);  // U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("ab\x80"), 2u);
  EXPECT_EQ(FindInvalidUtf8("ab\xc3"), 2u);              // truncated
  EXPECT_EQ(FindInvalidUtf8("\xc0\xaf"), 0u);            // overlong
  EXPECT_EQ(FindInvalidUtf8("x\xe0\x9f\xbf"), 1u);       // overlong
  EXPECT_EQ(FindInvalidUtf8("x\xed\xa0\x80"), 1u);       // a surrogate
  EXPECT_EQ(FindInvalidUtf8("xy\xf4\x90\x80\x80"), 2u);  // above U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("\xf0\x80\x80\x80"), 0u);    // overlong
  EXPECT_EQ(FindInvalidUtf8("\xff"), 0u);
}

TEST(QuotedTest, ShowsTextAndEscapesTheRest) {
  EXPECT_EQ(Quoted("blk.0.w"), "'blk.0.w'");
  EXPECT_EQ(Quoted("caf\xc3\xa9"), "'caf\xc3\xa9'");
  EXPECT_EQ(Quoted(std::string_view("a\n\0", 3)), "'a\\n\\x00'");
  EXPECT_EQ(Quoted("caf\xe9"), "'caf\\xe9'");
}

TEST(QuotedTest, CutsBetweenCharacters) {
  EXPECT_EQ(Quoted(std::string(80, 'a')), "'" + std::string(80, 'a') + "'");
  EXPECT_EQ(Quoted(std::string(81, 'a')), "'" + std::string(80, 'a') + "...'");
  EXPECT_EQ(Quoted(std::string(79, 'a') + "\xc3\xa9!"), "'" + std::string(79, 'a') + "...'");
}

}  // namespace
}  // namespace headway
