#include "runtime/text/chat/marked_text.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway::text::chat {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MarkedTextTest, RunsOfEqualMarksAreOnePiece) {
  MarkedText text("ab", true);
  text.Append("cd", true);
  text.Append("", false);
  text.Append("e", false);
  text.Append("f", true);
  EXPECT_THAT(text.Pieces(),
              ElementsAre(TextPiece{"abcd", true}, TextPiece{"e", false}, TextPiece{"f", true}));
  EXPECT_FALSE(text.all_trusted());
  EXPECT_THAT(MarkedText().Pieces(), IsEmpty());
  EXPECT_TRUE(MarkedText().all_trusted());
  EXPECT_FALSE(MarkedText("a", false).all_trusted());
}

// Against one mark a byte.
TEST(MarkedTextTest, RangesKeepTheMarkOfEachByte) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    MarkedText text;
    std::string marks;
    const auto check = [&] {
      ASSERT_EQ(text.size(), marks.size());
      for (size_t i = 0; i < marks.size(); ++i) ASSERT_EQ(text.trusted_at(i), marks[i] == 't');
    };
    for (int i = 0; i < 6; ++i) {
      const bool trusted = random() % 2 == 0;
      const size_t length = random() % 4;
      text.Append(std::string(length, 'x'), trusted);
      marks.append(length, trusted ? 't' : 'u');
    }
    check();
    const size_t a = random() % (marks.size() + 1);
    const size_t b = random() % (marks.size() + 1);
    text.AppendRange(MarkedText(text), std::min(a, b), std::max(a, b));
    marks += marks.substr(std::min(a, b), std::max(a, b) - std::min(a, b));
    check();
    text = text.Range(a, marks.size());
    marks = marks.substr(a);
    check();
    std::string from_pieces;
    for (const TextPiece& piece : text.Pieces()) {
      EXPECT_FALSE(piece.text.empty());
      from_pieces.append(piece.text.size(), piece.is_trusted ? 't' : 'u');
    }
    EXPECT_EQ(from_pieces, marks);
  }
}

}  // namespace
}  // namespace headway::text::chat
