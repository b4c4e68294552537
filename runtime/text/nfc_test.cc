#include "runtime/text/nfc.h"

#include "gtest/gtest.h"

namespace headway::text {
namespace {

TEST(NfcTest, Composes) {
  EXPECT_EQ(NormalizeNfc("plain ASCII"), "plain ASCII");
  EXPECT_EQ(NormalizeNfc("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(NormalizeNfc("cafe\xcc\x81"), "caf\xc3\xa9");
  EXPECT_EQ(NormalizeNfc("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab"), "\xed\x95\x9c");  // Hangul
}

TEST(NfcTest, SingletonsAndExclusions) {
  EXPECT_EQ(NormalizeNfc("\xe2\x84\xab"), "\xc3\x85");  // ANGSTROM SIGN to U+00C5
  EXPECT_EQ(NormalizeNfc("\xe2\x84\xa6"), "\xce\xa9");  // OHM SIGN to OMEGA
  // U+0958 is excluded from composition: it comes apart and stays so.
  EXPECT_EQ(NormalizeNfc("\xe0\xa5\x98"), "\xe0\xa4\x95\xe0\xa4\xbc");
}

TEST(NfcTest, OrdersMarksByClass) {
  // q, dot above (230), dot below (220): the dot below comes first.
  EXPECT_EQ(NormalizeNfc("q\xcc\x87\xcc\xa3"), "q\xcc\xa3\xcc\x87");
  // Marks of one class keep their order.
  EXPECT_EQ(NormalizeNfc("q\xcc\x81\xcc\x80"), "q\xcc\x81\xcc\x80");
  // d, dot above, dot below: the first composes with the dot below, past the dot above.
  EXPECT_EQ(NormalizeNfc("d\xcc\x87\xcc\xa3"), "\xe1\xb8\x8d\xcc\x87");
}

TEST(NfcTest, HostileRunsOfMarksTakeNoQuadraticTime) {
  std::string text = "a";
  std::string sorted = "a";
  for (int i = 0; i < 200'000; ++i) text += "\xcc\x8d\xcc\x96";  // classes 230 and 220 in turn
  for (int i = 0; i < 200'000; ++i) sorted += "\xcc\x96";
  for (int i = 0; i < 200'000; ++i) sorted += "\xcc\x8d";
  EXPECT_EQ(NormalizeNfc(text), sorted);  // a quadratic sort would take minutes
}

}  // namespace
}  // namespace headway::text
