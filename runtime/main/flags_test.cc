#include "runtime/main/flags.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class FlagsTest : public testing::Test {
 protected:
  FlagsTest()
      : flags_({.verb = "sing",
                .summary = "sings",
                .description = "A verb for tests.",
                .example = "headway sing --loud"}) {
    flags_.Add("--song", &song_, {.value = "NAME", .help = "what to sing"});
    flags_.Switch("--loud", &loud_, "sing so that all hear it");
    flags_.Section("Numbers");
    flags_.Add("--verses", &verses_, 1, 10, {.value = "N", .help = "verses"});
    flags_.Add("--key", &key_, 0, 11, {.value = "N", .help = "key", .default_text = "the song's"});
    flags_.Add("--seed", &seed_, {.value = "N", .help = "seed"});
    flags_.Add("--pitch", &pitch_, 0, 2, {.value = "P", .help = "pitch"});
    flags_.AddList("--notes", &notes_, 0, 127, {.value = "N,N,...", .help = "notes"});
    flags_.AddAddress("--hall", &hall_, 0, {.value = "HOST:PORT", .help = "hall"});
    flags_.AddAddress("--fans", &fans_, 1, {.value = "HOST:PORT", .help = "fans"});
    flags_.AddAddresses("--singers", &singers_, {.value = "HOST:PORT,...", .help = "singers"});
    flags_.AddBytes("--memory", &memory_, {.value = "SIZE", .help = "memory"});
    flags_.AddChoice("--voice", &voice_, {"alto", "bass"}, {.value = "", .help = "voice"});
    flags_.AddRepeated("--skip", &skip_, {.value = "WORD", .help = "words left out"});
    flags_.AddArgument("PLACE", &place_, /*required=*/false, {.value = "", .help = "where"});
  }

  Flags::Outcome Parse(std::vector<std::string> args) {
    std::vector<char*> pointers;
    for (std::string& arg : args) pointers.push_back(arg.data());
    return flags_.Parse(pointers, &text_);
  }

  Flags flags_;
  std::string text_;
  std::string song_ = "hymn";
  bool loud_ = false;
  int verses_ = 3;
  std::optional<int> key_;
  std::optional<uint64_t> seed_;
  float pitch_ = 1;
  std::vector<int> notes_ = {60, 62};
  std::string hall_, fans_;
  std::vector<std::string> singers_;
  int64_t memory_ = 0;
  std::string voice_ = "alto";
  std::vector<std::string> skip_;
  std::string place_;
};

TEST_F(FlagsTest, DefaultsStayWhereNothingIsGiven) {
  EXPECT_EQ(Parse({}), Flags::Outcome::kRun);
  EXPECT_EQ(song_, "hymn");
  EXPECT_EQ(verses_, 3);
  EXPECT_FALSE(key_.has_value());
  EXPECT_THAT(notes_, ElementsAre(60, 62));
  EXPECT_FALSE(flags_.Given("--song"));
}

TEST_F(FlagsTest, ReadsEveryKind) {
  EXPECT_EQ(Parse({"--song",    "aria",        "--loud",   "--verses=2",
                   "--key",     "0",           "--seed",   "18446744073709551615",
                   "--pitch",   "0.5",         "--notes",  "1,2,127",
                   "--singers", "a:1,[::1]:2", "--memory", "2KiB",
                   "--voice",   "bass",        "--skip",   "la",
                   "--skip",    "--tra",       "--hall",   "h:0",
                   "hall"}),
            Flags::Outcome::kRun)
      << text_;
  EXPECT_EQ(song_, "aria");
  EXPECT_TRUE(loud_);
  EXPECT_EQ(verses_, 2);
  EXPECT_EQ(key_, 0);
  EXPECT_EQ(seed_, UINT64_MAX);
  EXPECT_EQ(pitch_, 0.5f);
  EXPECT_THAT(notes_, ElementsAre(1, 2, 127));
  EXPECT_THAT(singers_, ElementsAre("a:1", "[::1]:2"));
  EXPECT_EQ(memory_, 2048);
  EXPECT_EQ(voice_, "bass");
  EXPECT_THAT(skip_, ElementsAre("la", "--tra"));
  EXPECT_EQ(hall_, "h:0");
  EXPECT_EQ(place_, "hall");
  EXPECT_TRUE(flags_.Given("--song"));
}

TEST_F(FlagsTest, TakesTextAsItStands) {
  EXPECT_EQ(Parse({"--song", "--what \"is\" [this],\n"}), Flags::Outcome::kRun) << text_;
  EXPECT_EQ(song_, "--what \"is\" [this],\n");
  EXPECT_EQ(Parse({"--song", ""}), Flags::Outcome::kRun) << text_;
  EXPECT_EQ(song_, "");
}

TEST_F(FlagsTest, ValuesThatCannotBeAreMistakes) {
  const std::vector<std::vector<std::string>> mistakes = {
      {"--verses", "0"},      {"--verses", "11"},   {"--verses", "2x"},
      {"--verses", ""},       {"--verses", "1e9"},  {"--verses", "99999999999999999999"},
      {"--pitch", "nan"},     {"--pitch", "2.5"},   {"--seed", "-1"},
      {"--notes", "1,,2"},    {"--notes", "1,128"}, {"--memory", "lots"},
      {"--voice", "soprano"}, {"--song"},           {"--song", "a", "--song", "b"},
      {"--loud=perhaps"},     {"here", "there"},    {"--hall", "foo"},
      {"--fans", "foo:0"},    {"--singers", "a"},   {"--singers", "a:1,"},
      {"--singers", "a:0"},   {"--song", "\xff"}};
  for (const auto& args : mistakes) {
    EXPECT_EQ(Parse(args), Flags::Outcome::kUsage) << testing::PrintToString(args);
    EXPECT_THAT(text_, AllOf(HasSubstr("headway sing: "), HasSubstr("headway sing --help"),
                             Not(HasSubstr("\n"))));
  }
}

TEST_F(FlagsTest, NamesFlagValueAndLimits) {
  Parse({"--verses", "11"});
  EXPECT_THAT(text_, AllOf(HasSubstr("--verses"), HasSubstr("\"11\""), HasSubstr("from 1 to 10")));
  Parse({"--voice", "tenor"});
  EXPECT_THAT(text_, AllOf(HasSubstr("\"tenor\""), HasSubstr("alto, bass")));
}

TEST_F(FlagsTest, NamesWhatIsNotUtf8) {
  Parse({"--loud", "--song", "ab\xff!"});
  EXPECT_THAT(text_, HasSubstr("sing: --song: 'ab\\xff!' is not UTF-8 at byte 2;"));
  Parse({"--song=\xc3"});
  EXPECT_THAT(text_, HasSubstr("sing: --song: '--song=\\xc3' is not UTF-8 at byte 7;"));
  Parse({"--loud", "\xff"});
  EXPECT_THAT(text_, HasSubstr("sing: argument 2: '\\xff' is not UTF-8 at byte 0;"));
  Parse({"--so\xff=x"});
  EXPECT_THAT(text_, HasSubstr("sing: argument 1: "));
}

TEST_F(FlagsTest, NamesWhatAnAddressLacks) {
  Parse({"--hall", "foo"});
  EXPECT_THAT(text_, HasSubstr("--hall: 'foo' has no port; expected HOST:PORT"));
  Parse({"--fans", "foo:0"});
  EXPECT_THAT(text_, HasSubstr("--fans: the port of \"foo:0\" is 0, must be 1 to 65535"));
}

TEST_F(FlagsTest, SuggestsTheFlagThatWasMeant) {
  EXPECT_EQ(Parse({"--verse", "2"}), Flags::Outcome::kUsage);
  EXPECT_THAT(text_, AllOf(HasSubstr("\"--verse\""), HasSubstr("did you mean --verses?")));
  Parse({"--something-else=1"});
  EXPECT_THAT(text_, AllOf(HasSubstr("--something-else"), Not(HasSubstr("did you mean"))));
}

TEST_F(FlagsTest, ChecksRunAfterParsing) {
  flags_.Check([this]() -> std::optional<std::string> {
    if (loud_ && verses_ > 5) return "too much";
    return std::nullopt;
  });
  EXPECT_EQ(Parse({"--verses", "6"}), Flags::Outcome::kRun);
  EXPECT_EQ(Parse({"--verses", "6", "--loud"}), Flags::Outcome::kUsage);
  EXPECT_EQ(text_, "headway sing: too much; see headway sing --help");
}

TEST_F(FlagsTest, HelpWinsOverMistakesAndTellsEverything) {
  EXPECT_EQ(Parse({"--verses", "99", "--help"}), Flags::Outcome::kHelp);
  EXPECT_THAT(text_, AllOf(HasSubstr("Usage: headway sing [FLAGS] [PLACE]"),
                           HasSubstr("--song NAME"), HasSubstr("what to sing (default: hymn)"),
                           HasSubstr("key (0 to 11; default: the song's)"),
                           HasSubstr("pitch (0 to 2; default: 1)"), HasSubstr("Exit status: 0"),
                           HasSubstr("Numbers:"), HasSubstr("--voice alto|bass"),
                           HasSubstr("(default: 60,62)"), HasSubstr("headway sing --loud")));
}

TEST(WrapTest, HelpIsNoWiderThanAHundredColumns) {
  Flags flags({.verb = "v",
               .summary = "s",
               .description = std::string(300, 'w').replace(100, 1, " ").replace(200, 1, " "),
               .example = "e"});
  bool on = false;
  std::string words;
  for (int i = 0; i < 100; ++i) words += "word ";
  flags.Switch("--on", &on, words);
  std::string help;
  std::string flag = "--help";
  char* args[] = {flag.data()};
  EXPECT_EQ(flags.Parse(args, &help), Flags::Outcome::kHelp);
  size_t start = 0;
  for (size_t end = help.find('\n'); end != std::string::npos; end = help.find('\n', start)) {
    EXPECT_LE(end - start, 100u) << help.substr(start, end - start);
    start = end + 1;
  }
}

TEST(ClosestWordTest, FindsOnlyWhatIsClose) {
  const std::vector<std::string> words = {"generate", "score", "up"};
  EXPECT_EQ(ClosestWord("genrate", words), "generate");
  EXPECT_EQ(ClosestWord("scores", words), "score");
  EXPECT_EQ(ClosestWord("install", words), "");
  EXPECT_EQ(ClosestWord("", words), "");
}

}  // namespace
}  // namespace headway
