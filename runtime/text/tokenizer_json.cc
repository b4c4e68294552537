#include "runtime/text/tokenizer_json.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/json.h"
#include "runtime/base/status.h"
#include "runtime/base/utf8.h"
#include "runtime/text/known_pretokenizers.h"

namespace headway::text {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxId = (1 << 24) - 1;
constexpr char kConfigFile[] = "tokenizer_config.json";

absl::StatusOr<Json> ParseObject(const char* file, std::string_view text) {
  absl::StatusOr<Json> json = ParseJson(text);
  HEADWAY_RETURN_IF_ERROR(Annotate(json.status(), file));
  if (!json->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": not a JSON object"));
  }
  return json;
}

absl::Status Malformed(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("tokenizer.json: ", what));
}

absl::Status Unsupported(const std::string& what) {
  return absl::UnimplementedError(
      absl::StrCat("tokenizer.json: ", what, " is not supported; byte-level BPE is"));
}

// Member `key` of an object, or null.
const Json& Get(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto it = object.find(key);
  return it == object.end() ? kNull : *it;
}

bool GetBool(const Json& object, const char* key, bool otherwise) {
  const Json& value = Get(object, key);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

std::string GetString(const Json& object, const char* key) {
  const Json& value = Get(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

// A token in tokenizer_config.json: a string, or an object that describes an added token.
std::string TokenText(const Json& value) {
  return value.is_string() ? value.get<std::string>() : GetString(value, "content");
}

absl::Status ReadNormalizer(const Json& normalizer, TokenizerSpec* spec) {
  if (normalizer.is_null()) return absl::OkStatus();
  const std::string type = GetString(normalizer, "type");
  if (type == "NFC") {
    spec->normalize_nfc = true;
    return absl::OkStatus();
  }
  if (type == "Sequence") {
    for (const Json& step : Get(normalizer, "normalizers")) {
      HEADWAY_RETURN_IF_ERROR(ReadNormalizer(step, spec));
    }
    return absl::OkStatus();
  }
  return Unsupported(absl::StrCat("normalizer ", Quoted(type)));
}

std::string QuotePattern(const std::string& literal) {
  std::string out;
  for (const char c : literal) {
    if (std::string_view("\\^$.[]|()?*+{}&").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

absl::Status ReadSplit(const Json& step, TokenizerSpec* spec) {
  const Json& pattern = Get(step, "pattern");
  SplitStep split;
  if (const Json& regex = Get(pattern, "Regex"); regex.is_string()) {
    split.pattern = regex.get<std::string>();
  } else if (const Json& literal = Get(pattern, "String"); literal.is_string()) {
    split.pattern = QuotePattern(literal.get<std::string>());
  } else {
    return Malformed("a Split without a pattern");
  }
  const std::string behavior = GetString(step, "behavior");
  const bool invert = GetBool(step, "invert", false);
  if (behavior == "Removed" && invert) {
    split.drop_gaps = true;
  } else if (behavior != "Isolated") {
    return Unsupported(absl::StrCat("Split with behavior ", Quoted(behavior)));
  }
  spec->splits.push_back(std::move(split));
  return absl::OkStatus();
}

// Sets *is_byte_level when a step turns text into the byte alphabet; none may come after it, since
// it would see other characters.
absl::Status ReadPretokenizer(const Json& step, TokenizerSpec* spec, bool* is_byte_level) {
  const std::string type = GetString(step, "type");
  if (type == "Sequence") {
    for (const Json& inner : Get(step, "pretokenizers")) {
      HEADWAY_RETURN_IF_ERROR(ReadPretokenizer(inner, spec, is_byte_level));
    }
    return absl::OkStatus();
  }
  if (*is_byte_level)
    return Unsupported(absl::StrCat("pre_tokenizer ", Quoted(type), " after ByteLevel"));
  if (type == "ByteLevel") {
    if (GetBool(step, "add_prefix_space", true)) return Unsupported("add_prefix_space");
    if (GetBool(step, "use_regex", true)) spec->splits.push_back({kGpt2Pattern});
    *is_byte_level = true;
    return absl::OkStatus();
  }
  if (type == "Split") return ReadSplit(step, spec);
  if (type == "Digits") {
    spec->splits.push_back({GetBool(step, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)"});
    return absl::OkStatus();
  }
  if (type == "Punctuation") {
    const std::string behavior = GetString(step, "behavior");
    if (behavior != "Isolated" && behavior != "Contiguous") {
      return Unsupported(absl::StrCat("Punctuation with behavior ", Quoted(behavior)));
    }
    spec->splits.push_back(
        {behavior == "Isolated" ? R"([\p{P}$+<=>^`|~])" : R"([\p{P}$+<=>^`|~]+)"});
    return absl::OkStatus();
  }
  return Unsupported(absl::StrCat("pre_tokenizer ", Quoted(type)));
}

// Ids above `most` are refused: each id below takes memory, also one that no token has.
absl::Status PutToken(const Json& id_json, std::string text, int64_t most, TokenizerSpec* spec) {
  if (!id_json.is_number_integer()) {
    return Malformed(absl::StrCat("the id of token ", Quoted(text), " is not an integer"));
  }
  const int64_t id = id_json.get<int64_t>();
  if (id < 0 || id > most) {
    return Malformed(
        absl::StrCat("token ", Quoted(text), " has id ", id, ", not in [0, ", most, "]"));
  }
  if (spec->tokens.size() <= static_cast<size_t>(id)) spec->tokens.resize(id + 1);
  spec->tokens[id] = std::move(text);
  return absl::OkStatus();
}

absl::Status ReadModel(const Json& model, int64_t most_id, TokenizerSpec* spec) {
  const std::string type = GetString(model, "type");
  if (type != "BPE") return Unsupported(absl::StrCat("model ", Quoted(type)));
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!GetString(model, affix).empty()) return Unsupported(affix);
  }
  if (GetBool(model, "byte_fallback", false)) {
    return Unsupported("byte_fallback (a sentencepiece vocabulary)");
  }
  if (!Get(model, "dropout").is_null()) return Unsupported("dropout");
  spec->ignore_merges = GetBool(model, "ignore_merges", false);
  const Json& vocab = Get(model, "vocab");
  if (!vocab.is_object() || vocab.empty()) return Malformed("model.vocab is no object with tokens");
  for (const auto& [token, id] : vocab.items()) {
    HEADWAY_RETURN_IF_ERROR(PutToken(id, token, most_id, spec));
  }
  const Json& merges = Get(model, "merges");
  if (!merges.is_array()) return Malformed("model.merges is no array");
  spec->merges.reserve(merges.size());
  for (const Json& merge : merges) {
    if (merge.is_string()) {
      spec->merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      spec->merges.push_back(absl::StrCat(merge[0].get_ref<const std::string&>(), " ",
                                          merge[1].get_ref<const std::string&>()));
    } else {
      return Malformed(absl::StrCat("merge ", spec->merges.size(), " is no pair of strings"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadAddedTokens(const Json& tokens, int64_t most_id, TokenizerSpec* spec) {
  for (const Json& token : tokens) {
    AddedToken added;
    added.text = GetString(token, "content");
    HEADWAY_RETURN_IF_ERROR(PutToken(Get(token, "id"), added.text, most_id, spec));
    added.id = Get(token, "id").get<int32_t>();
    added.special = GetBool(token, "special", false);
    added.lstrip = GetBool(token, "lstrip", false);
    added.rstrip = GetBool(token, "rstrip", false);
    added.single_word = GetBool(token, "single_word", false);
    spec->added_tokens.push_back(std::move(added));
  }
  return absl::OkStatus();
}

std::optional<int32_t> FindToken(const TokenizerSpec& spec, const std::string& text) {
  if (text.empty()) return std::nullopt;
  for (const AddedToken& added : spec.added_tokens) {
    if (added.text == text) return added.id;
  }
  const auto it = std::find(spec.tokens.begin(), spec.tokens.end(), text);
  if (it == spec.tokens.end()) return std::nullopt;
  return static_cast<int32_t>(it - spec.tokens.begin());
}

// The token that a post-processor puts before a text; empty: none.
std::string LeadingToken(const Json& post_processor) {
  const std::string type = GetString(post_processor, "type");
  if (type == "Sequence") {
    for (const Json& step : Get(post_processor, "processors")) {
      if (std::string token = LeadingToken(step); !token.empty()) return token;
    }
  } else if (type == "TemplateProcessing") {
    const Json& single = Get(post_processor, "single");
    if (single.is_array() && !single.empty()) {
      return GetString(Get(single[0], "SpecialToken"), "id");
    }
  }
  return {};
}

absl::Status ReadBosAndEos(const Json& config, const Json& post_processor, TokenizerSpec* spec) {
  const std::string leading = LeadingToken(post_processor);
  std::string bos = TokenText(Get(config, "bos_token"));
  if (bos.empty()) bos = leading;
  const std::string eos = TokenText(Get(config, "eos_token"));
  spec->bos_id = FindToken(*spec, bos);
  spec->eos_id = FindToken(*spec, eos);
  if (!bos.empty() && !spec->bos_id)
    return Malformed(absl::StrCat("no token ", Quoted(bos), " (bos)"));
  if (!eos.empty() && !spec->eos_id)
    return Malformed(absl::StrCat("no token ", Quoted(eos), " (eos)"));
  if (spec->eos_id) spec->end_ids.push_back(*spec->eos_id);
  if (!leading.empty() && leading != bos) {
    return Unsupported(
        absl::StrCat("a post_processor that puts ", Quoted(leading), " before the text"));
  }
  spec->add_bos = GetBool(config, "add_bos_token", !leading.empty()) && spec->bos_id.has_value();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerSpec> ParseTokenizerJson(std::string_view tokenizer_json,
                                                 std::string_view tokenizer_config_json) {
  HEADWAY_ASSIGN_OR_RETURN(const Json root, ParseObject("tokenizer.json", tokenizer_json));
  Json config;
  if (!tokenizer_config_json.empty()) {
    HEADWAY_ASSIGN_OR_RETURN(config, ParseObject(kConfigFile, tokenizer_config_json));
  }
  TokenizerSpec spec;
  HEADWAY_RETURN_IF_ERROR(ReadNormalizer(Get(root, "normalizer"), &spec));
  bool is_byte_level = false;
  const Json& pretokenizer = Get(root, "pre_tokenizer");
  if (!pretokenizer.is_null()) {
    HEADWAY_RETURN_IF_ERROR(ReadPretokenizer(pretokenizer, &spec, &is_byte_level));
  }
  if (!is_byte_level) return Unsupported("a tokenizer without a ByteLevel pre_tokenizer");
  // A token takes more than a byte of the file, so ids that go far beyond are no vocabulary; memory
  // stays in proportion to the file.
  const auto most_id = static_cast<int64_t>(std::min(kMaxId, tokenizer_json.size()));
  HEADWAY_RETURN_IF_ERROR(ReadModel(Get(root, "model"), most_id, &spec));
  HEADWAY_RETURN_IF_ERROR(ReadAddedTokens(Get(root, "added_tokens"), most_id, &spec));
  HEADWAY_RETURN_IF_ERROR(ReadBosAndEos(config, Get(root, "post_processor"), &spec));
  return spec;
}

absl::StatusOr<std::string> ChatTemplateFromConfig(std::string_view tokenizer_config_json) {
  HEADWAY_ASSIGN_OR_RETURN(const Json config, ParseObject(kConfigFile, tokenizer_config_json));
  const Json& chat_template = Get(config, "chat_template");
  if (chat_template.is_string()) return chat_template.get<std::string>();
  if (chat_template.is_array()) {
    for (const Json& named : chat_template) {
      if (GetString(named, "name") == "default") return GetString(named, "template");
    }
  }
  return absl::NotFoundError("tokenizer_config.json has no chat_template");
}

}  // namespace headway::text
