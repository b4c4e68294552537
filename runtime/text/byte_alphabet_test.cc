#include "runtime/text/byte_alphabet.h"

#include "gtest/gtest.h"

namespace headway::text {
namespace {

TEST(ByteAlphabetTest, KnownPlaces) {
  EXPECT_EQ(BytesToAlphabet(" the\n"), "\xc4\xa0the\xc4\x8a");  // U+0120, U+010A
  EXPECT_EQ(BytesToAlphabet(std::string_view("\0", 1)), "\xc4\x80");
  EXPECT_EQ(BytesToAlphabet("\xad"), "\xc5\x83");  // the last of the 68
  EXPECT_EQ(BytesToAlphabet("\xae~"), "\xc2\xae~");
}

TEST(ByteAlphabetTest, EveryByteComesBack) {
  std::string all;
  for (int b = 0; b < 256; ++b) all.push_back(static_cast<char>(b));
  EXPECT_EQ(BytesFromAlphabet(BytesToAlphabet(all)), all);
}

TEST(ByteAlphabetTest, RefusesOtherCharacters) {
  EXPECT_EQ(BytesFromAlphabet("a b"), std::nullopt);
  EXPECT_EQ(BytesFromAlphabet("\xe2\x96\x81the"), std::nullopt);  // sentencepiece's U+2581
  EXPECT_EQ(BytesFromAlphabet("\xc5\x84"), std::nullopt);         // U+0144, one past the end
  EXPECT_EQ(BytesFromAlphabet("\xff"), std::nullopt);
}

}  // namespace
}  // namespace headway::text
