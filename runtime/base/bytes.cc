#include "runtime/base/bytes.h"

#include <cctype>
#include <cstdio>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/strings.h"

namespace headway {
namespace {

struct Unit {
  const char* name;
  int64_t bytes;
};

constexpr Unit kUnits[] = {
    {"", 1},
    {"B", 1},
    {"KiB", int64_t{1} << 10},
    {"MiB", int64_t{1} << 20},
    {"GiB", int64_t{1} << 30},
    {"TiB", int64_t{1} << 40},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
};

// Digits before and after the point that cannot overflow what is computed with them below.
constexpr size_t kMaxWholeDigits = 19;
constexpr size_t kMaxFractionDigits = 9;

std::string_view TakeDigits(std::string_view& text) {
  size_t n = 0;
  while (n < text.size() && std::isdigit(static_cast<unsigned char>(text[n]))) ++n;
  const std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}

uint64_t Value(std::string_view digits) {
  uint64_t value = 0;
  for (const char c : digits) value = value * 10 + static_cast<uint64_t>(c - '0');
  return value;
}

absl::Status BadAmount(std::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", ToAbsl(text.substr(0, 60)),
      "' is not an amount of memory: write for example 80GiB, 512MiB, 24GB or a number "
      "of bytes"));
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(std::string_view text) {
  std::string_view rest = text;
  std::string_view whole = TakeDigits(rest);
  std::string_view fraction;
  if (whole.empty()) return BadAmount(text);
  if (!rest.empty() && rest[0] == '.') {
    rest.remove_prefix(1);
    fraction = TakeDigits(rest);
    if (fraction.empty() || fraction.size() > kMaxFractionDigits) return BadAmount(text);
  }
  while (!rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
  const Unit* unit = nullptr;
  for (const Unit& u : kUnits) {
    if (absl::EqualsIgnoreCase(ToAbsl(rest), u.name)) unit = &u;
  }
  if (unit == nullptr) return BadAmount(text);

  while (whole.size() > 1 && whole[0] == '0') whole.remove_prefix(1);
  constexpr int64_t kLimit = std::numeric_limits<int64_t>::max();
  const absl::Status too_much = absl::InvalidArgumentError(
      absl::StrCat("'", ToAbsl(text.substr(0, 60)), "' is more than 2^63 - 1 bytes"));
  if (whole.size() > kMaxWholeDigits) return too_much;
  __int128 bytes = static_cast<__int128>(Value(whole)) * unit->bytes;
  if (!fraction.empty()) {
    int64_t scale = 1;
    for (size_t i = 0; i < fraction.size(); ++i) scale *= 10;
    bytes += static_cast<__int128>(Value(fraction)) * unit->bytes / scale;
  }
  if (bytes > kLimit) return too_much;
  return static_cast<int64_t>(bytes);
}

std::string FormatBytes(int64_t bytes) {
  static constexpr const char* kNames[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double amount = static_cast<double>(bytes);
  int unit = 0;
  while (amount >= 1024 && unit < 6) {
    amount /= 1024;
    ++unit;
  }
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.2f", amount);
  std::string text = digits;
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return absl::StrCat(text, " ", kNames[unit]);
}

}  // namespace headway
