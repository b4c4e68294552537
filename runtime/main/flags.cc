#include "runtime/main/flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/bytes.h"
#include "runtime/base/host_port.h"
#include "runtime/base/utf8.h"

namespace headway {
namespace {

constexpr size_t kNameColumn = 26;  // where the help of a flag starts
constexpr size_t kWidth = 100;

// Breaks `text` between words so that no line passes kWidth; lines after the first are indented.
// Line feeds in `text` stay.
std::string Wrap(const std::string& text, size_t indent) {
  std::string out;
  size_t column = indent;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    if (!out.empty()) {
      out += "\n" + std::string(line.empty() ? 0 : indent, ' ');
      column = indent;
    }
    bool first = true;
    for (const std::string& word : std::vector<std::string>(absl::StrSplit(line, ' '))) {
      if (!first && column + 1 + word.size() > kWidth) {
        out += "\n" + std::string(indent, ' ');
        column = indent;
      } else if (!first) {
        out += " ";
        ++column;
      }
      out += word;
      column += word.size();
      first = false;
    }
  }
  return out;
}

// A whole string as a number; nothing when it is none, or does not fit.
template <typename T>
std::optional<T> ParseNumber(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

template <typename T>
T NumberIn(const std::string& name, const std::string& text, T low, T high) {
  const std::optional<T> value = ParseNumber<T>(text);
  // Not a number compares false with everything.
  if (value.has_value() && *value >= low && *value <= high) return *value;
  throw CLI::ValidationError(absl::StrCat(name, ": \"", text, "\" is not ",
                                          std::is_integral_v<T> ? "a whole number" : "a number",
                                          " from ", low, " to ", high),
                             CLI::ExitCodes::ValidationError);
}

void CheckAddress(const std::string& name, const std::string& text, int lowest_port) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(text);
  if (parsed.ok() && parsed->port >= lowest_port) return;
  throw CLI::ValidationError(
      parsed.ok() ? absl::StrCat(name, ": the port of \"", text, "\" is ", parsed->port,
                                 ", must be ", lowest_port, " to 65535")
                  : absl::StrCat(name, ": ", parsed.status().message()),
      CLI::ExitCodes::ValidationError);
}

size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substitute}));
    }
  }
  return row[b.size()];
}

// A range for --help. One without an upper end that anybody would reach says nothing of it.
template <typename T>
std::string RangeText(T low, T high) {
  constexpr T kNobodyReaches = 1'000'000;
  if (high < kNobodyReaches) return absl::StrCat(low, " to ", high);
  return low > 0 ? absl::StrCat("at least ", low) : "";
}

}  // namespace

struct Flags::Impl {
  struct Entry {
    std::string section;
    std::string name;
    FlagHelp help;
    CLI::Option* option;
    std::string range = "";
  };

  explicit Impl(About about_flags) : about(std::move(about_flags)), app("", "") {
    app.set_help_flag();  // --help is ours: it must win over any mistake on the line
    app.allow_windows_style_options(false);
  }

  std::string Help() const;
  std::string NameOfArgument(const std::vector<std::string>& arguments, size_t i) const;
  std::string UsageError(std::string what) const;

  About about;
  CLI::App app;
  std::string section = "Flags";
  std::vector<Entry> entries;
  std::vector<std::function<std::optional<std::string>()>> checks;

  // `set` gets the text of each occurrence and throws CLI::ValidationError.
  CLI::Option* AddOption(const std::string& name, FlagHelp help, bool repeated,
                         std::function<void(const std::string&)> set) {
    CLI::Option* option = app.add_option_function<std::vector<std::string>>(
        name, [set](const std::vector<std::string>& texts) {
          for (const std::string& text : texts) set(text);
        });
    option->expected(1)->type_size(1)->allow_extra_args(false);
    option->multi_option_policy(repeated ? CLI::MultiOptionPolicy::TakeAll
                                         : CLI::MultiOptionPolicy::Throw);
    entries.push_back({section, name, std::move(help), option});
    return option;
  }
};

Flags::Flags(About about) : impl_(std::make_unique<Impl>(std::move(about))) {}
Flags::~Flags() = default;

void Flags::Section(const std::string& title) { impl_->section = title; }

void Flags::Switch(const std::string& name, bool* value, const std::string& help) {
  CLI::Option* option = impl_->app.add_flag_callback(name, [value] { *value = true; });
  impl_->entries.push_back({impl_->section, name, {.value = "", .help = help}, option});
}

void Flags::Add(const std::string& name, std::string* value, FlagHelp help) {
  if (help.default_text.empty()) help.default_text = *value;
  impl_->AddOption(name, std::move(help), /*repeated=*/false,
                   [value](const std::string& text) { *value = text; });
}

void Flags::AddRepeated(const std::string& name, std::vector<std::string>* values, FlagHelp help) {
  impl_->AddOption(name, std::move(help), /*repeated=*/true,
                   [values](const std::string& text) { values->push_back(text); });
}

void Flags::Add(const std::string& name, int* value, int low, int high, FlagHelp help) {
  if (help.default_text.empty()) help.default_text = absl::StrCat(*value);
  impl_->AddOption(name, std::move(help), /*repeated=*/false,
                   [=](const std::string& text) { *value = NumberIn<int>(name, text, low, high); });
  impl_->entries.back().range = RangeText(low, high);
}

void Flags::Add(const std::string& name, std::optional<int>* value, int low, int high,
                FlagHelp help) {
  impl_->AddOption(name, std::move(help), /*repeated=*/false,
                   [=](const std::string& text) { *value = NumberIn<int>(name, text, low, high); });
  impl_->entries.back().range = RangeText(low, high);
}

void Flags::Add(const std::string& name, std::optional<uint64_t>* value, FlagHelp help) {
  impl_->AddOption(name, std::move(help), /*repeated=*/false, [=](const std::string& text) {
    *value = NumberIn<uint64_t>(name, text, 0, UINT64_MAX);
  });
}

void Flags::Add(const std::string& name, float* value, float low, float high, FlagHelp help) {
  if (help.default_text.empty()) help.default_text = absl::StrCat(*value);
  impl_->AddOption(name, std::move(help), /*repeated=*/false, [=](const std::string& text) {
    *value = NumberIn<float>(name, text, low, high);
  });
  impl_->entries.back().range = RangeText(low, high);
}

void Flags::AddList(const std::string& name, std::vector<int>* values, int low, int high,
                    FlagHelp help) {
  if (help.default_text.empty()) help.default_text = absl::StrJoin(*values, ",");
  impl_->AddOption(name, std::move(help), /*repeated=*/false, [=](const std::string& text) {
    values->clear();
    for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
      values->push_back(NumberIn<int>(name, part, low, high));
    }
  });
}

void Flags::AddAddress(const std::string& name, std::string* value, int lowest_port,
                       FlagHelp help) {
  if (help.default_text.empty()) help.default_text = *value;
  impl_->AddOption(name, std::move(help), /*repeated=*/false, [=](const std::string& text) {
    CheckAddress(name, text, lowest_port);
    *value = text;
  });
}

void Flags::AddAddresses(const std::string& name, std::vector<std::string>* values, FlagHelp help) {
  impl_->AddOption(name, std::move(help), /*repeated=*/false, [=](const std::string& text) {
    *values = absl::StrSplit(text, ',');
    for (const std::string& address : *values) CheckAddress(name, address, /*lowest_port=*/1);
  });
}

void Flags::AddBytes(const std::string& name, int64_t* value, FlagHelp help) {
  impl_->AddOption(name, std::move(help), /*repeated=*/false, [=](const std::string& text) {
    const absl::StatusOr<int64_t> bytes = ParseBytes(text);
    if (!bytes.ok()) {
      throw CLI::ValidationError(absl::StrCat(name, ": ", bytes.status().message()),
                                 CLI::ExitCodes::ValidationError);
    }
    *value = *bytes;
  });
}

void Flags::AddChoice(const std::string& name, std::string* value, std::vector<std::string> choices,
                      FlagHelp help) {
  if (help.value.empty()) help.value = absl::StrJoin(choices, "|");
  if (help.default_text.empty()) help.default_text = *value;
  impl_->AddOption(
      name, std::move(help), /*repeated=*/false,
      [=, choices = std::move(choices)](const std::string& text) {
        if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
          throw CLI::ValidationError(
              absl::StrCat(name, ": \"", text, "\" is not one of ", absl::StrJoin(choices, ", ")),
              CLI::ExitCodes::ValidationError);
        }
        *value = text;
      });
}

void Flags::AddArgument(const std::string& name, std::string* value, bool required, FlagHelp help) {
  CLI::Option* option = impl_->AddOption(name, std::move(help), /*repeated=*/false,
                                         [value](const std::string& text) { *value = text; });
  if (required) option->required();
}

void Flags::Check(std::function<std::optional<std::string>()> check) {
  impl_->checks.push_back(std::move(check));
}

bool Flags::Given(const std::string& name) const {
  for (const Impl::Entry& entry : impl_->entries) {
    if (entry.name == name) return entry.option->count() > 0;
  }
  return false;
}

std::string Flags::Impl::Help() const {
  std::string arguments;
  for (const Entry& entry : entries) {
    if (!entry.option->get_positional()) continue;
    absl::StrAppend(&arguments, entry.option->get_required() ? absl::StrCat(" ", entry.name)
                                                             : absl::StrCat(" [", entry.name, "]"));
  }
  std::string out =
      absl::StrCat("headway ", about.verb, ": ", about.summary, "\n\nUsage: headway ", about.verb,
                   " [FLAGS]", arguments, "\n\n", Wrap(about.description, 0), "\n");
  std::string section;
  for (const Entry& entry : entries) {
    if (entry.section != section) absl::StrAppend(&out, "\n", entry.section, ":\n");
    section = entry.section;
    std::string name = absl::StrCat("  ", entry.name);
    if (!entry.help.value.empty()) absl::StrAppend(&name, " ", entry.help.value);
    if (name.size() + 2 > kNameColumn) {
      absl::StrAppend(&name, "\n", std::string(kNameColumn, ' '));
    } else {
      name.resize(kNameColumn, ' ');
    }
    std::string help = entry.help.help;
    std::vector<std::string> facts;
    if (!entry.range.empty()) facts.push_back(entry.range);
    if (!entry.help.default_text.empty()) {
      facts.push_back(absl::StrCat("default: ", entry.help.default_text));
    }
    if (!facts.empty()) absl::StrAppend(&help, " (", absl::StrJoin(facts, "; "), ")");
    absl::StrAppend(&out, name, Wrap(help, kNameColumn), "\n");
  }
  absl::StrAppend(
      &out,
      "\nExit status: 0 done; 1 failed, and one line says why; 2 the command line is wrong.\n");
  absl::StrAppend(&out, "\nExample:\n");
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(about.example, '\n'))) {
    absl::StrAppend(&out, "  ", line, "\n");
  }
  return out;
}

// The flag that arguments[i] is or belongs to, or its place after the verb.
std::string Flags::Impl::NameOfArgument(const std::vector<std::string>& arguments, size_t i) const {
  const std::string itself = arguments[i].substr(0, arguments[i].find('='));
  for (const Entry& entry : entries) {
    if (entry.name == itself) return itself;
    const bool takes_value = !entry.help.value.empty();
    if (i > 0 && takes_value && entry.name == arguments[i - 1]) return entry.name;
  }
  return absl::StrCat("argument ", i + 1);
}

std::string Flags::Impl::UsageError(std::string what) const {
  return absl::StrCat("headway ", about.verb, ": ", what, "; see headway ", about.verb, " --help");
}

Flags::Outcome Flags::Parse(std::span<char* const> args, std::string* text) {
  std::vector<std::string> arguments(args.begin(), args.end());
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h") {
      *text = impl_->Help();
      return Outcome::kHelp;
    }
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (const std::optional<size_t> at = FindInvalidUtf8(arguments[i])) {
      *text = impl_->UsageError(absl::StrCat(impl_->NameOfArgument(arguments, i), ": ",
                                             Quoted(arguments[i]), " is not UTF-8 at byte ", *at));
      return Outcome::kUsage;
    }
  }
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    impl_->app.parse(std::move(reversed));
  } catch (const CLI::ExtrasError&) {
    const std::string extra = impl_->app.remaining().front();
    std::vector<std::string> names;
    for (const Impl::Entry& entry : impl_->entries) names.push_back(entry.name);
    const std::string closest = ClosestWord(extra.substr(0, extra.find('=')), names);
    *text = impl_->UsageError(absl::StrCat(
        extra.starts_with("-") ? "no flag " : "did not expect ", "\"", extra, "\"",
        closest.empty() ? std::string() : absl::StrCat(", did you mean ", closest, "?")));
    return Outcome::kUsage;
  } catch (const CLI::ParseError& error) {
    *text = impl_->UsageError(error.what());
    return Outcome::kUsage;
  }
  for (const auto& check : impl_->checks) {
    if (const std::optional<std::string> mistake = check(); mistake.has_value()) {
      *text = impl_->UsageError(*mistake);
      return Outcome::kUsage;
    }
  }
  return Outcome::kRun;
}

std::string ClosestWord(const std::string& word, std::span<const std::string> words) {
  std::string closest;
  size_t best = std::max<size_t>(word.size() / 3, 1) + 1;
  for (const std::string& candidate : words) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < best) {
      best = distance;
      closest = candidate;
    }
  }
  return closest;
}

}  // namespace headway
