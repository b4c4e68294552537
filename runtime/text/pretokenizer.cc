#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/text/pretokenizer.h"

#include <pcre2.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/base/utf8.h"

namespace headway::text {
namespace {

constexpr size_t kMaxPatternBytes = 64 << 10;
// Real text needs a few hundred steps a match.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKib = 64 << 10;

std::string Pcre2Message(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

template <auto kFree>
struct Deleter {
  template <typename T>
  void operator()(T* p) const {
    kFree(p);
  }
};
using Code = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;

}  // namespace

absl::StatusOr<std::string> PatternForPcre2(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  const auto refuse = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer: pattern ", Quoted(pattern), " uses ",
                                                   ToAbsl(what), ", which is not supported"));
  };
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      switch (escaped) {
        case 's':
          out += "\\p{White_Space}";
          break;
        case 'S':
          out += "\\P{White_Space}";
          break;
        case 'w':
          out += in_class ? "\\p{L}\\p{M}\\p{Nd}\\p{Pc}" : "[\\p{L}\\p{M}\\p{Nd}\\p{Pc}]";
          break;
        case 'W':
          if (in_class) return refuse("\\W in a class");
          out += "[^\\p{L}\\p{M}\\p{Nd}\\p{Pc}]";
          break;
        case 'h':
        case 'H':
          return refuse("\\h");
        case 'u':
          if (i + 4 >= pattern.size()) return refuse("a \\u without four digits");
          absl::StrAppend(&out, "\\x{", ToAbsl(pattern.substr(i + 1, 4)), "}");
          i += 4;
          break;
        default:
          out += c;
          out += escaped;
      }
    } else if (in_class) {
      if (c == '&' && pattern.substr(i, 2) == "&&") return refuse("&& in a class");
      if (c == '[' && pattern.substr(i, 2) != "[:") return refuse("a class in a class");
      if (c == '[') {  // a named class such as [:alpha:]
        const size_t end = pattern.find(":]", i);
        if (end == std::string_view::npos) return refuse("[: without :]");
        out += pattern.substr(i, end + 2 - i);
        i = end + 1;
        continue;
      }
      if (c == ']') in_class = false;
      out += c;
    } else if (c == '[') {
      in_class = true;
      out += c;
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') return refuse("] first in a class");
    } else if (c == '$') {
      out += "(?=\\n|\\z)";
    } else if (c == '^') {
      out += "(?<![^\\n])";
    } else {
      out += c;
    }
  }
  return out;
}

struct Pretokenizer::Step {
  Code code;
  MatchContext context;
  std::string pattern;  // for messages
  bool drop_gaps;

  absl::Status Split(std::string_view text, pcre2_match_data* match,
                     std::vector<std::string_view>* pieces) const;
};

absl::StatusOr<Pretokenizer> Pretokenizer::Create(const std::vector<SplitStep>& steps) {
  std::vector<std::unique_ptr<const Step>> compiled;
  for (const SplitStep& step : steps) {
    if (step.pattern.size() > kMaxPatternBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tokenizer: a pattern of ", step.pattern.size(), " bytes; at most ", kMaxPatternBytes));
    }
    HEADWAY_ASSIGN_OR_RETURN(const std::string pattern, PatternForPcre2(step.pattern));
    int error = 0;
    PCRE2_SIZE offset = 0;
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                            nullptr));
    if (code == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tokenizer: pattern ", Quoted(pattern), " at byte ", offset, ": ", Pcre2Message(error)));
    }
    // Where there is no JIT the interpreter gives the same matches, more slowly.
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    MatchContext context(pcre2_match_context_create(nullptr));
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_set_heap_limit(context.get(), kHeapLimitKib);
    compiled.push_back(std::make_unique<const Step>(
        Step{std::move(code), std::move(context), step.pattern, step.drop_gaps}));
  }
  return Pretokenizer(std::move(compiled));
}

Pretokenizer::Pretokenizer(std::vector<std::unique_ptr<const Step>> steps)
    : steps_(std::move(steps)) {}
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;
Pretokenizer::~Pretokenizer() = default;

absl::Status Pretokenizer::Step::Split(std::string_view text, pcre2_match_data* match,
                                       std::vector<std::string_view>* pieces) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t done = 0;
  while (done < text.size()) {
    // An empty match would cut nothing.
    constexpr uint32_t kOptions = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int found = pcre2_match(code.get(), subject, text.size(), done, kOptions, match, context.get());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter takes its memory from the heap
      found = pcre2_match(code.get(), subject, text.size(), done, kOptions | PCRE2_NO_JIT, match,
                          context.get());
    }
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("tokenize: pattern ", Quoted(pattern), " gave up on a text of ", text.size(),
                       " bytes at byte ", done, ": ", Pcre2Message(found)));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match);
    if (range[0] > done && !drop_gaps) pieces->push_back(text.substr(done, range[0] - done));
    // \K and look-behind can make a match start before it ends; a pattern file may hold anything.
    if (range[0] < done || range[1] <= done) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenize: pattern ", Quoted(pattern), " matched behind itself"));
    }
    pieces->push_back(text.substr(range[0], range[1] - range[0]));
    done = range[1];
  }
  if (done < text.size() && !drop_gaps) pieces->push_back(text.substr(done));
  return absl::OkStatus();
}

absl::Status Pretokenizer::Split(std::string_view text,
                                 std::vector<std::string_view>* pieces) const {
  if (text.empty()) return absl::OkStatus();
  // Only the whole match is asked for, so one pair of offsets serves every pattern.
  const MatchData match(pcre2_match_data_create(1, nullptr));
  std::vector<std::string_view> current = {text};
  std::vector<std::string_view> next;
  for (const auto& step : steps_) {
    next.clear();
    for (const std::string_view piece : current) {
      HEADWAY_RETURN_IF_ERROR(step->Split(piece, match.get(), &next));
    }
    current.swap(next);
  }
  pieces->insert(pieces->end(), current.begin(), current.end());
  return absl::OkStatus();
}

}  // namespace headway::text
