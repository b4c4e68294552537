#include "runtime/text/utf8.h"

#include <random>
#include <string>

#include "gtest/gtest.h"
#include "runtime/base/utf8.h"

namespace headway::text {
namespace {

std::string StreamAll(std::string_view bytes, size_t step) {
  Utf8Stream stream;
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += step) stream.Feed(bytes.substr(i, step), &out);
  stream.Finish(&out);
  return out;
}

TEST(Utf8Test, CodePointsGoThereAndBack) {
  for (const char32_t c : {0x0u, 0x7fu, 0x80u, 0x7ffu, 0x800u, 0xffffu, 0x10000u, 0x10ffffu}) {
    std::string text;
    AppendUtf8(c, &text);
    EXPECT_TRUE(IsUtf8(text)) << std::hex << uint32_t{c};
    EXPECT_EQ(Utf8Length(text[0]), text.size());
    size_t offset = 0;
    EXPECT_EQ(NextCodePoint(text, &offset), c);
    EXPECT_EQ(offset, text.size());
  }
}

TEST(Utf8Test, WhiteSpaceIsTheUnicodeProperty) {
  for (const char32_t c : {0x09, 0x0d, 0x20, 0x85, 0xa0, 0x1680, 0x2003, 0x2028, 0x3000}) {
    EXPECT_TRUE(IsWhiteSpace(c)) << std::hex << uint32_t{c};
  }
  for (const char32_t c : {0x08, 0x1c, 0x1f, 0x180e, 0x200b, 0xfeff}) {
    EXPECT_FALSE(IsWhiteSpace(c)) << std::hex << uint32_t{c};
  }
}

// The examples of section 3.9 of the Unicode standard, table 3-8 and following.
TEST(Utf8Test, ReplacesMaximalSubparts) {
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(StreamAll("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", 1),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(StreamAll("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", 1),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(StreamAll("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", 1),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(StreamAll("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", 1), r + r + r + r + "A");
}

TEST(Utf8Test, GroupingDoesNotMatter) {
  std::mt19937 random(7);
  // Bytes that are often parts of characters.
  const std::string alphabet = "a\x80\x9f\xa0\xbf\xc2\xc3\xe0\xe4\xed\xf0\xf4\xff";
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (int i = 0; i < 40; ++i) bytes += alphabet[random() % alphabet.size()];
    const std::string whole = StreamAll(bytes, bytes.size());
    EXPECT_TRUE(IsUtf8(whole));
    for (const size_t step : {1, 2, 3, 7}) EXPECT_EQ(StreamAll(bytes, step), whole);
  }
}

TEST(Utf8Test, WaitsForTheRestOfACharacter) {
  Utf8Stream stream;
  std::string out;
  stream.Feed("a\xf0\x9f", &out);
  EXPECT_EQ(out, "a");
  stream.Feed("\x98", &out);
  EXPECT_EQ(out, "a");
  stream.Feed("\x80z", &out);
  EXPECT_EQ(out, "a\xf0\x9f\x98\x80z");
  stream.Finish(&out);
  EXPECT_EQ(out, "a\xf0\x9f\x98\x80z");
}

}  // namespace
}  // namespace headway::text
