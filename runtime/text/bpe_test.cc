#include "runtime/text/bpe.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BpeTest : public testing::Test {
 protected:
  void Load(std::vector<std::string> tokens, const std::vector<std::string>& merges) {
    spec_.tokens = std::move(tokens);
    vocabulary_ = std::make_unique<Vocabulary>(*Vocabulary::Create(spec_));
    bpe_ = Bpe::Create(*vocabulary_, merges);
  }
  std::vector<int32_t> Encode(std::string_view piece) {
    std::vector<int32_t> ids;
    Bpe::Scratch scratch;
    bpe_->Encode(piece, &scratch, &ids);
    return ids;
  }

  TokenizerSpec spec_;
  std::unique_ptr<Vocabulary> vocabulary_;
  absl::StatusOr<Bpe> bpe_ = absl::UnknownError("not loaded");
};

TEST_F(BpeTest, TheMostUrgentMergeGoesFirst) {
  Load({"a", "b", "c", "ab", "bc", "abc"}, {"b c", "a b", "a bc"});
  EXPECT_THAT(Encode("abc"), ElementsAre(5));  // bc, then a bc
  EXPECT_THAT(Encode("abab"), ElementsAre(3, 3));
  EXPECT_THAT(Encode("cab"), ElementsAre(2, 3));
  EXPECT_THAT(Encode(""), ElementsAre());
}

TEST_F(BpeTest, OfEqualMergesTheLeftmostGoesFirst) {
  Load({"a", "aa", "aaaa"}, {"a a", "aa aa"});
  EXPECT_THAT(Encode("aaa"), ElementsAre(1, 0));
  EXPECT_THAT(Encode("aaaaa"), ElementsAre(2, 0));
  EXPECT_THAT(Encode("aaaaaaa"), ElementsAre(2, 1, 0));
}

TEST_F(BpeTest, AMergeThatCameBackIsNotTakenForAStaleOne) {
  // "ab" is made after the pair (a, b c) had been considered with other neighbours.
  Load({"a", "b", "c", "d", "ab", "cd", "abcd"}, {"c d", "a b", "ab cd"});
  EXPECT_THAT(Encode("abcdab"), ElementsAre(6, 4));
}

TEST_F(BpeTest, BytesWithoutATokenAreLeftOut) {
  Load({"a", "b", "ab"}, {"a b"});
  EXPECT_THAT(Encode("xaxxb"), ElementsAre(2));
  EXPECT_THAT(Encode("x"), ElementsAre());
}

TEST_F(BpeTest, LongPiecesTakeNoQuadraticTime) {
  Load({"a", "aa", "aaaa", "aaaaaaaa"}, {"a a", "aa aa", "aaaa aaaa"});
  EXPECT_EQ(Encode(std::string(400'000, 'a')), std::vector<int32_t>(50'000, 3));
}

TEST_F(BpeTest, RefusesMergesThatMakeNoSense) {
  for (const auto& [merge, why] :
       {std::pair("ab", "no space"), std::pair("a z", "does not exist"),
        std::pair("b a", "does not exist"), std::pair("a b c", "byte alphabet")}) {
    Load({"a", "b", "c", "ab"}, {"a b", merge});
    EXPECT_EQ(bpe_.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(bpe_.status().message()), HasSubstr(why));
    EXPECT_THAT(std::string(bpe_.status().message()), HasSubstr(merge));
    EXPECT_THAT(std::string(bpe_.status().message()), HasSubstr("merge 1"));
  }
}

TEST_F(BpeTest, NoMergeMakesAControlToken) {
  spec_.added_tokens = {{.id = 2, .text = "ab", .special = true}};
  Load({"a", "b", "ab"}, {"a b"});
  EXPECT_EQ(bpe_.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace headway::text
