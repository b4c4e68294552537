#include "runtime/text/known_pretokenizers.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/utf8.h"

namespace headway::text {

// The patterns below stand so in the tokenizer.json of the models named.

const char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

constexpr char kDigit[] = R"(\p{N})";
constexpr char kLlama3Pattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2Pattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kGpt4oPattern[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Entry {
  std::string_view name;
  KnownPretokenizer pretokenizer;
};

std::vector<Entry> Entries() {
  const KnownPretokenizer gpt2 = {.splits = {{kGpt2Pattern}}};
  const KnownPretokenizer digits_then_gpt2 = {.splits = {{kDigit}, {kGpt2Pattern}}};
  const KnownPretokenizer llama3 = {
      .splits = {{kLlama3Pattern}}, .ignore_merges = true, .add_bos = true};
  return {
      {"gpt-2", gpt2},
      {"gpt2", gpt2},
      {"olmo", gpt2},
      {"mpt", gpt2},
      {"smollm", digits_then_gpt2},
      {"starcoder", digits_then_gpt2},
      {"refact", digits_then_gpt2},
      {"command-r", digits_then_gpt2},
      {"codeshell", digits_then_gpt2},
      {"llama-bpe", llama3},
      {"llama3", llama3},
      {"llama-v3", llama3},
      {"falcon3", llama3},
      {"dbrx", {.splits = {{kLlama3Pattern}}}},
      {"smaug-bpe", {.splits = {{kLlama3Pattern}}}},
      {"qwen2", {.splits = {{kQwen2Pattern}}, .normalize_nfc = true}},
      {"deepseek-r1-qwen", {.splits = {{kQwen2Pattern}}}},
      {"stablelm2", {.splits = {{kQwen2Pattern}}}},
      {"gpt-4o", {.splits = {{kGpt4oPattern}}, .ignore_merges = true}},
      {"falcon", {.splits = {{R"([\p{P}$+<=>^~|`]+)"}, {kGpt2Pattern}, {R"([0-9][0-9][0-9])"}}}},
      {"deepseek-coder",
       {.splits =
            {{R"([\r\n])"},
             {R"(\s?\p{L}+)"},
             {R"(\s?\p{P}+)"},
             {"[\xe4\xb8\x80-\xe9\xbe\xa5\xe0\xa0\x80-\xe4\xb8\x80\xea\xb0\x80-\xed\x9f\xbf]+"},
             {kDigit}}}},
  };
}

}  // namespace

absl::StatusOr<KnownPretokenizer> FindPretokenizer(std::string_view name) {
  for (Entry& entry : Entries()) {
    if (entry.name == name) return std::move(entry.pretokenizer);
  }
  return absl::UnimplementedError(absl::StrCat("tokenizer: pre-tokenizer ", Quoted(name),
                                               " (tokenizer.ggml.pre) is not known"));
}

}  // namespace headway::text
