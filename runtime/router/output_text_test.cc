#include "runtime/router/output_text.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/router/test_text.h"

namespace headway {
namespace {

struct Case {
  const char* situation;
  std::vector<int32_t> tokens;
  std::vector<std::string> stops;
  int min_tokens = 0;
  bool include_stop_string = false;
  bool include_control_tokens = false;
  std::vector<std::string> deltas;  // one a token taken, then that of the end
  bool stopped = false;
};

TEST(OutputTextTest, LetsTextOut) {
  const Case kCases[] = {
      {"plain", TestIds("abc"), {}, 0, false, false, {"a", "b", "c", ""}},
      {"characters stay whole",
       TestIds("a\xc3\xa9z"),
       {},
       0,
       false,
       false,
       {"a", "", "\xc3\xa9", "z", ""}},
      {"an unfinished character ends as a replacement",
       TestIds("a\xc3"),
       {},
       0,
       false,
       false,
       {"a", "", "\xef\xbf\xbd"}},
      {"control tokens have no text",
       {'a', kTestEnd, 'b'},
       {},
       0,
       false,
       false,
       {"a", "", "b", ""}},
      {"control tokens on request", {'a', kTestEnd}, {}, 0, false, true, {"a", "<|end|>", ""}},
      {"a stop string over several tokens",
       TestIds("xaby"),
       {"ab"},
       0,
       false,
       false,
       {"x", "", "", ""},
       true},
      {"what was no stop after all comes out",
       TestIds("xacab"),
       {"ab"},
       0,
       false,
       false,
       {"x", "", "ac", "", "", ""},
       true},
      {"held back at the end", TestIds("xa"), {"ab"}, 0, false, false, {"x", "", "a"}},
      {"the stop string kept", TestIds("xab"), {"ab"}, 0, true, false, {"x", "", "ab", ""}, true},
      {"not before min_tokens",
       TestIds("abab"),
       {"ab"},
       3,
       false,
       false,
       {"a", "b", "", "", ""},
       true},
      {"a stop that begins before min_tokens does not count",
       TestIds("abc"),
       {"ab"},
       2,
       false,
       false,
       {"a", "b", "c", ""}},
      {"a one-character stop at the min_tokens-th token",
       TestIds("bb"),
       {"b"},
       2,
       false,
       false,
       {"b", "", ""},
       true},
      {"a control token can be a stop string when it has text",
       {'a', kTestEnd},
       {"<|end|>"},
       0,
       false,
       true,
       {"a", "", ""},
       true},
  };
  const auto tokenizer = TestTokenizer();
  for (const Case& c : kCases) {
    OutputText text(tokenizer.get(), c.include_control_tokens,
                    *text::StopMatcher::Create(c.stops, c.include_stop_string), c.min_tokens);
    std::vector<std::string> deltas;
    for (int32_t token : c.tokens) {
      if (text.stopped()) break;
      deltas.push_back(text.Take(token));
    }
    deltas.push_back(text.Finish());
    EXPECT_EQ(deltas, c.deltas) << c.situation;
    EXPECT_EQ(text.stopped(), c.stopped) << c.situation;
  }
}

TEST(OutputTextTest, NoTokenizerNoText) {
  OutputText text(nullptr, true, *text::StopMatcher::Create({}), 0);
  EXPECT_EQ(text.Take('a'), "");
  EXPECT_EQ(text.Finish(), "");
  EXPECT_FALSE(text.stopped());
}

}  // namespace
}  // namespace headway
