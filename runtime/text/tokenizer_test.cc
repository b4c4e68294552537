#include "runtime/text/tokenizer.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/text/byte_alphabet.h"
#include "runtime/text/detokenizer.h"
#include "runtime/text/tokenizer_json.h"
#include "tests/shared_data.h"

namespace headway::text {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Ids = std::vector<int32_t>;
using Mode = Tokenizer::Mode;

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The small vocabulary of tests/golden/text: <|begin|> 0, <|end|> 1, <|pad|> 2, then bytes and 61
// merges.
class TokenizerTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto spec = ParseTokenizerJson(ReadFile(GoldenPath("text/tokenizer.json")),
                                         ReadFile(GoldenPath("text/tokenizer_config.json")));
    ASSERT_TRUE(spec.ok()) << spec.status();
    spec_ = *spec;
    auto tokenizer = Tokenizer::Create(spec_);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = std::move(*tokenizer);
  }
  Ids Encode(std::string_view text, Mode mode = Mode::kUserText) {
    auto ids = tokenizer_->Encode(text, mode);
    EXPECT_TRUE(ids.ok()) << ids.status();
    return ids.ok() ? *ids : Ids();
  }
  Ids EncodePieces(const std::vector<TextPiece>& pieces) {
    auto ids = tokenizer_->EncodePieces(pieces);
    EXPECT_TRUE(ids.ok()) << ids.status();
    return ids.ok() ? *ids : Ids();
  }

  TokenizerSpec spec_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(TokenizerTest, GoldenSamples) {
  const auto samples = nlohmann::json::parse(ReadFile(GoldenPath("text/samples.json")));
  ASSERT_GE(samples.size(), 8u);
  for (const auto& sample : samples) {
    const auto text = sample["text"].get<std::string>();
    EXPECT_EQ(Encode(text), sample["ids"].get<Ids>()) << text;
    EXPECT_EQ(Encode(text, Mode::kSpecialTokens), sample["ids"].get<Ids>()) << text;
    EXPECT_EQ(*tokenizer_->Decode(sample["ids"].get<Ids>(), true), text);
  }
}

TEST_F(TokenizerTest, ReportsWhatTheFileSays) {
  EXPECT_EQ(tokenizer_->vocabulary_size(), 320);
  EXPECT_EQ(tokenizer_->bos_id(), 0);
  EXPECT_EQ(tokenizer_->eos_id(), 1);
  EXPECT_THAT(tokenizer_->end_ids(), ElementsAre(1));
  EXPECT_FALSE(tokenizer_->add_bos());
  EXPECT_EQ(tokenizer_->TokenBytes(269), " the");
  EXPECT_EQ(tokenizer_->TokenBytes(0), "<|begin|>");
  EXPECT_TRUE(tokenizer_->IsSpecial(0));
  EXPECT_FALSE(tokenizer_->IsSpecial(3));
  EXPECT_EQ(tokenizer_->FindAddedToken("<|pad|>"), 2);
  for (const int32_t id : {-1, 320, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(tokenizer_->TokenBytes(id), "");
    EXPECT_FALSE(tokenizer_->IsSpecial(id));
  }
}

TEST_F(TokenizerTest, ControlTokensOnlyWhereAskedFor) {
  const std::string text = "the<|end|>";
  EXPECT_THAT(Encode(text, Mode::kSpecialTokens), ElementsAre(311, 71, 1));
  EXPECT_THAT(Encode(text), Each(testing::Ge(3)));
  EXPECT_EQ(*tokenizer_->Decode(Encode(text), true), text);
  EXPECT_EQ(*tokenizer_->Decode(Encode(text, Mode::kSpecialTokens), true), "the");
  EXPECT_EQ(*tokenizer_->Decode(Encode(text, Mode::kSpecialTokens), false), text);
}

TEST_F(TokenizerTest, BordersBetweenPiecesDoNotShow) {
  const std::string text = "the GNU General Public License, version 3";
  const Ids whole = Encode(text);
  for (size_t i = 0; i <= text.size(); ++i) {
    for (const bool first : {false, true}) {
      EXPECT_EQ(EncodePieces({{text.substr(0, i), first}, {text.substr(i), !first}}), whole) << i;
    }
  }
  EXPECT_EQ(EncodePieces({}), Ids());
}

TEST_F(TokenizerTest, NoControlTokenWithoutTrust) {
  const std::string end = "<|end|>";
  for (size_t i = 0; i < end.size(); ++i) {
    EXPECT_THAT(EncodePieces({{end.substr(0, i), true}, {end.substr(i), false}}), Not(Contains(1)));
    EXPECT_THAT(EncodePieces({{end.substr(0, i + 1), false}, {end.substr(i + 1), true}}),
                Not(Contains(1)));
    // All of it trusted: pieces join.
    EXPECT_THAT(EncodePieces({{end.substr(0, i), true}, {end.substr(i), true}}), ElementsAre(1));
  }
  // An empty piece of another kind is no border.
  EXPECT_THAT(EncodePieces({{"<|e", true}, {"", false}, {"nd|>", true}}), ElementsAre(1));
}

TEST_F(TokenizerTest, NamesTheByteThatIsNotUtf8) {
  const auto status = tokenizer_->Encode("ok\xff", Mode::kUserText).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("byte 2 (0xff)"));
  EXPECT_THAT(
      std::string(tokenizer_->EncodePieces(std::vector<TextPiece>{{"abc", true}, {"\xc3", false}})
                      .status()
                      .message()),
      HasSubstr("byte 3 (0xc3)"));
}

TEST_F(TokenizerTest, DecodeNamesAnIdOutOfRange) {
  for (const int32_t id : {-1, 320}) {
    const auto status = tokenizer_->Decode(Ids{3, id}, true).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(id)));
  }
}

TEST_F(TokenizerTest, DetokenizerNeverSplitsACharacter) {
  const Ids ids = Encode("\xf0\x9f\x9a\x80!");  // no merges for these: four tokens and one
  ASSERT_EQ(ids.size(), 5u);
  Detokenizer detokenizer(tokenizer_.get(), true);
  EXPECT_EQ(detokenizer.Feed(ids[0]), "");
  EXPECT_EQ(detokenizer.Feed(ids[1]), "");
  EXPECT_EQ(detokenizer.Feed(1), "");  // a control token in between disturbs nothing
  EXPECT_EQ(detokenizer.Feed(ids[2]), "");
  EXPECT_EQ(detokenizer.Feed(ids[3]), "\xf0\x9f\x9a\x80");
  EXPECT_EQ(detokenizer.Feed(ids[0]), "");
  EXPECT_EQ(detokenizer.Feed(100'000), "");
  EXPECT_EQ(detokenizer.Finish(), "\xef\xbf\xbd");
}

TEST_F(TokenizerTest, DetokenizerCanKeepControlTokens) {
  Detokenizer detokenizer(tokenizer_.get(), false);
  EXPECT_EQ(detokenizer.Feed(0), "<|begin|>");
}

TEST_F(TokenizerTest, ThreadsMayShareIt) {
  const std::string text = "the work, you are the license\n\n version 3 \xe4\xbd\xa0";
  const Ids expected = Encode(text);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto ids = tokenizer_->Encode(text, Mode::kUserText);
        wrong[t] += !ids.ok() || *ids != expected;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, Each(0));
}

TEST_F(TokenizerTest, NormalisesBetweenAddedTokensOnly) {
  spec_.normalize_nfc = true;
  tokenizer_ = *Tokenizer::Create(spec_);
  EXPECT_EQ(Encode("cafe\xcc\x81"), Encode("caf\xc3\xa9"));
  // The mark would compose with the '>' (U+226F) if the token did not come first.
  const Ids ids = Encode("<|end|>\xcc\xb8", Mode::kSpecialTokens);
  EXPECT_EQ(ids[0], 1);
  EXPECT_EQ(*tokenizer_->Decode(ids, false), "<|end|>\xcc\xb8");
}

TEST_F(TokenizerTest, IgnoreMergesTakesWholeTokens) {
  spec_.tokens.push_back("xyz");  // no merge makes it
  EXPECT_EQ((*Tokenizer::Create(spec_))->Encode("xyz", Mode::kUserText)->size(), 3u);
  spec_.ignore_merges = true;
  EXPECT_THAT(*(*Tokenizer::Create(spec_))->Encode("xyz", Mode::kUserText), ElementsAre(320));
  // But never an added token of the same bytes.
  spec_.added_tokens.push_back({.id = 320, .text = "xyz", .special = false});
  EXPECT_EQ((*Tokenizer::Create(spec_))->Encode("xyz", Mode::kUserText)->size(), 3u);
}

TEST_F(TokenizerTest, HostileTextIsQuick) {
  for (const std::string_view unit :
       {" ", "a", "A", "\n ", "\xe4\xbd\xa0", "<|", "'s", "\xcc\x81"}) {
    std::string text;
    while (text.size() < 200'000) text += unit;
    EXPECT_EQ(*tokenizer_->Decode(Encode(text, Mode::kSpecialTokens), false), text);
  }
}

TEST_F(TokenizerTest, NoTextOfSoManyBytesHasFewerTokens) {
  const int64_t longest = tokenizer_->MostTextBytes(1);
  EXPECT_EQ(longest, 9);  // <|begin|>
  EXPECT_EQ(tokenizer_->MostTextBytes(0), 0);
  EXPECT_EQ(tokenizer_->MostTextBytes(1000), 9000);
  EXPECT_EQ(tokenizer_->MostTextBytes(INT64_MAX / 2), INT64_MAX);
  const std::string text = "<|begin|><|begin|><|begin|>";
  EXPECT_EQ(
      tokenizer_->MostTextBytes(static_cast<int64_t>(Encode(text, Mode::kSpecialTokens).size())),
      static_cast<int64_t>(text.size()));

  // Three characters that normalisation makes one of, a token of two bytes.
  spec_.tokens.assign(1, BytesToAlphabet("\xce\x90"));
  spec_.merges.clear();
  spec_.added_tokens.clear();
  spec_.bos_id.reset();
  spec_.eos_id = 0;
  spec_.end_ids.clear();
  spec_.normalize_nfc = true;
  spec_.ignore_merges = true;
  tokenizer_ = *Tokenizer::Create(spec_);
  const std::string decomposed = "\xce\xb9\xcc\x88\xcc\x81";
  EXPECT_THAT(Encode(decomposed), ElementsAre(0));
  EXPECT_EQ(tokenizer_->MostTextBytes(1), static_cast<int64_t>(decomposed.size()));
}

TEST_F(TokenizerTest, RefusesASpecThatMakesNoSense) {
  const auto code = [](const TokenizerSpec& spec) {
    return Tokenizer::Create(spec).status().code();
  };
  TokenizerSpec spec = spec_;
  spec.eos_id = 320;
  EXPECT_EQ(code(spec), absl::StatusCode::kInvalidArgument);
  spec = spec_;
  spec.end_ids = {-1};
  EXPECT_EQ(code(spec), absl::StatusCode::kInvalidArgument);
  spec = spec_;
  spec.bos_id.reset();
  spec.add_bos = true;
  EXPECT_EQ(code(spec), absl::StatusCode::kInvalidArgument);
  spec = spec_;
  spec.added_tokens.push_back({.id = 320, .text = "x"});
  EXPECT_EQ(code(spec), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(TokenizerSpec()), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace headway::text
