#include "runtime/model/text_config.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/json.h"
#include "runtime/base/status.h"
#include "runtime/base/utf8.h"
#include "runtime/model/config_reader.h"
#include "runtime/text/known_pretokenizers.h"
#include "runtime/text/tokenizer_json.h"

namespace headway {
namespace {

constexpr char kModelKey[] = "tokenizer.ggml.model";
constexpr char kGgufTemplateKey[] = "tokenizer.chat_template";
constexpr char kTokenizerFile[] = "tokenizer.json";
constexpr char kTokenizerConfigFile[] = "tokenizer_config.json";
constexpr char kGenerationConfigFile[] = "generation_config.json";
constexpr char kTemplateFile[] = "chat_template.jinja";

// Values of tokenizer.ggml.token_type.
enum GgufTokenType { kUnknown = 2, kControl = 3, kUserDefined = 4 };

absl::StatusOr<std::optional<int32_t>> OptionalId(const ConfigReader& reader, const char* key) {
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<int64_t> id, reader.OptionalInt(key, 0, INT32_MAX));
  if (!id) return std::nullopt;
  return static_cast<int32_t>(*id);
}

// The contents of a file of the folder; empty where there is none.
absl::StatusOr<std::string> OptionalFile(const Checkpoint& checkpoint, const char* name) {
  absl::StatusOr<std::string> text = checkpoint.SideFile(name);
  if (absl::IsNotFound(text.status())) return std::string();
  return text;
}

// A list that every tokenizer has: one without it is malformed, which is not the same as none.
absl::StatusOr<std::vector<std::string>> RequiredTexts(const Metadata& metadata, const char* key) {
  if (metadata.Has(key)) return metadata.Strings(key);
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer: there is no key ", key, ", though ", kModelKey, " names a kind"));
}

absl::Status CheckLength(const char* key, size_t entries, size_t tokens) {
  if (entries == tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer: ", key, " has ", entries, " entries for ", tokens, " tokens"));
}

// Steps that cut text differently from what is known here.
absl::StatusOr<text::KnownPretokenizer> ReadGgufPretokenizer(const ConfigReader& reader) {
  constexpr char kPreKey[] = "tokenizer.ggml.pre";
  constexpr char kPrefixKey[] = "tokenizer.ggml.add_space_prefix";
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<bool> prefix, reader.OptionalBool(kPrefixKey));
  if (prefix.value_or(false)) {
    return absl::UnimplementedError(absl::StrCat(
        "tokenizer: ", kPrefixKey, " is true; a space before the text is not supported"));
  }
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<std::string> pre, reader.OptionalString(kPreKey));
  if (pre) return text::FindPretokenizer(*pre);
  // Any guess would give other tokens for some texts.
  return absl::UnimplementedError(absl::StrCat("tokenizer: there is no key ", kPreKey,
                                               ", which says how text is cut before merging"));
}

absl::StatusOr<text::TokenizerSpec> ReadGgufTokenizer(const Metadata& metadata) {
  const ConfigReader reader(metadata);
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<std::string> named,
                           reader.OptionalString(kModelKey));
  const std::string model = named.value_or("none");
  if (model == "none" || model == "no_vocab") {
    return absl::NotFoundError("the checkpoint has no tokenizer");
  }
  if (model != "gpt2") {
    return absl::UnimplementedError(absl::StrCat("tokenizer: ", kModelKey, " is ", Quoted(model),
                                                 "; byte-level BPE ('gpt2') is supported"));
  }
  HEADWAY_ASSIGN_OR_RETURN(text::KnownPretokenizer pretokenizer, ReadGgufPretokenizer(reader));
  text::TokenizerSpec spec;
  HEADWAY_ASSIGN_OR_RETURN(spec.tokens, RequiredTexts(metadata, "tokenizer.ggml.tokens"));
  HEADWAY_ASSIGN_OR_RETURN(spec.merges, RequiredTexts(metadata, "tokenizer.ggml.merges"));
  constexpr char kScoresKey[] = "tokenizer.ggml.scores";
  if (metadata.Has(kScoresKey)) {
    // Byte-level BPE has no use for them, but a list that does not fit shows a damaged file.
    HEADWAY_ASSIGN_OR_RETURN(const std::vector<double> scores, metadata.Doubles(kScoresKey));
    HEADWAY_RETURN_IF_ERROR(CheckLength(kScoresKey, scores.size(), spec.tokens.size()));
  }
  constexpr char kTypesKey[] = "tokenizer.ggml.token_type";
  if (metadata.Has(kTypesKey)) {
    HEADWAY_ASSIGN_OR_RETURN(const std::vector<int64_t> types, metadata.Ints(kTypesKey));
    HEADWAY_RETURN_IF_ERROR(CheckLength(kTypesKey, types.size(), spec.tokens.size()));
    for (size_t id = 0; id < types.size(); ++id) {
      if (types[id] != kUnknown && types[id] != kControl && types[id] != kUserDefined) continue;
      spec.added_tokens.push_back({.id = static_cast<int32_t>(id),
                                   .text = spec.tokens[id],
                                   .special = types[id] != kUserDefined});
    }
  }
  spec.splits = std::move(pretokenizer.splits);
  spec.normalize_nfc = pretokenizer.normalize_nfc;
  spec.ignore_merges = pretokenizer.ignore_merges;
  HEADWAY_ASSIGN_OR_RETURN(spec.bos_id, OptionalId(reader, "tokenizer.ggml.bos_token_id"));
  HEADWAY_ASSIGN_OR_RETURN(spec.eos_id, OptionalId(reader, "tokenizer.ggml.eos_token_id"));
  HEADWAY_ASSIGN_OR_RETURN(const auto add_bos, reader.OptionalBool("tokenizer.ggml.add_bos_token"));
  spec.add_bos = add_bos.value_or(pretokenizer.add_bos) && spec.bos_id.has_value();
  return spec;
}

absl::StatusOr<text::TokenizerSpec> ReadFolderTokenizer(const Checkpoint& checkpoint) {
  absl::StatusOr<std::string> tokenizer = checkpoint.SideFile(kTokenizerFile);
  if (absl::IsNotFound(tokenizer.status())) {
    return absl::NotFoundError(
        absl::StrCat("the checkpoint has no tokenizer (", kTokenizerFile, ")"));
  }
  HEADWAY_RETURN_IF_ERROR(tokenizer.status());
  HEADWAY_ASSIGN_OR_RETURN(const std::string config,
                           OptionalFile(checkpoint, kTokenizerConfigFile));
  return text::ParseTokenizerJson(*tokenizer, config);
}

absl::Status AddId(int64_t id, const char* source, std::set<int32_t>* ids) {
  if (id < 0 || id > INT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": eos_token_id ", id, " is not in [0, ", INT32_MAX, "]"));
  }
  ids->insert(static_cast<int32_t>(id));
  return absl::OkStatus();
}

// eos_token_id of generation_config.json: one id or a list.
absl::Status AddGenerationConfigIds(const Checkpoint& checkpoint, std::set<int32_t>* ids) {
  HEADWAY_ASSIGN_OR_RETURN(const std::string text, OptionalFile(checkpoint, kGenerationConfigFile));
  if (text.empty()) return absl::OkStatus();
  absl::StatusOr<nlohmann::json> config = ParseJson(text);
  HEADWAY_RETURN_IF_ERROR(Annotate(config.status(), kGenerationConfigFile));
  if (!config->is_object()) return absl::OkStatus();
  const auto it = config->find("eos_token_id");
  if (it == config->end() || it->is_null()) return absl::OkStatus();
  const nlohmann::json list = it->is_array() ? *it : nlohmann::json::array({*it});
  for (const nlohmann::json& id : list) {
    if (!id.is_number_integer()) {
      return absl::InvalidArgumentError(absl::StrCat(
          kGenerationConfigFile, ": eos_token_id holds something other than an integer"));
    }
    HEADWAY_RETURN_IF_ERROR(AddId(id.get<int64_t>(), kGenerationConfigFile, ids));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::set<int32_t>> EndIds(const Checkpoint& checkpoint) {
  const Metadata& metadata = checkpoint.metadata();
  std::set<int32_t> ids;
  if (checkpoint.kind() == Checkpoint::Kind::kGguf) {
    const ConfigReader reader(metadata);
    for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                            "tokenizer.ggml.eom_token_id"}) {
      HEADWAY_ASSIGN_OR_RETURN(const std::optional<int32_t> id, OptionalId(reader, key));
      if (id) ids.insert(*id);
    }
    return ids;
  }
  constexpr char kKey[] = "eos_token_id";
  if (metadata.Has(kKey)) {
    if (const absl::StatusOr<int64_t> id = metadata.Int(kKey); id.ok()) {
      HEADWAY_RETURN_IF_ERROR(AddId(*id, "config.json", &ids));
    } else {
      HEADWAY_ASSIGN_OR_RETURN(const std::vector<int64_t> list, metadata.Ints(kKey));
      for (const int64_t each : list) HEADWAY_RETURN_IF_ERROR(AddId(each, "config.json", &ids));
    }
  }
  HEADWAY_RETURN_IF_ERROR(AddGenerationConfigIds(checkpoint, &ids));
  return ids;
}

}  // namespace

absl::StatusOr<text::TokenizerSpec> ReadTokenizerSpec(const Checkpoint& checkpoint) {
  HEADWAY_ASSIGN_OR_RETURN(text::TokenizerSpec spec, checkpoint.kind() == Checkpoint::Kind::kGguf
                                                         ? ReadGgufTokenizer(checkpoint.metadata())
                                                         : ReadFolderTokenizer(checkpoint));
  HEADWAY_ASSIGN_OR_RETURN(std::set<int32_t> ids, EndIds(checkpoint));
  if (spec.eos_id) ids.insert(*spec.eos_id);
  spec.end_ids.assign(ids.begin(), ids.end());
  return spec;
}

absl::Status CheckTokenizerFits(const text::TokenizerSpec& spec, int vocabulary) {
  size_t count = spec.tokens.size();
  while (count > 0 && spec.tokens[count - 1].empty()) --count;
  if (count <= static_cast<size_t>(vocabulary)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer: token ", Quoted(spec.tokens[count - 1]), " has id ", count - 1,
                   ", but the model's vocabulary has ", vocabulary, " tokens"));
}

absl::StatusOr<std::string> ReadChatTemplate(const Checkpoint& checkpoint) {
  if (checkpoint.kind() == Checkpoint::Kind::kGguf) {
    if (!checkpoint.metadata().Has(kGgufTemplateKey)) {
      return absl::NotFoundError("the checkpoint has no chat template");
    }
    return checkpoint.metadata().String(kGgufTemplateKey);
  }
  HEADWAY_ASSIGN_OR_RETURN(std::string source, OptionalFile(checkpoint, kTemplateFile));
  if (!source.empty()) return source;
  HEADWAY_ASSIGN_OR_RETURN(const std::string config,
                           OptionalFile(checkpoint, kTokenizerConfigFile));
  if (config.empty()) return absl::NotFoundError("the checkpoint has no chat template");
  return text::ChatTemplateFromConfig(config);
}

absl::StatusOr<std::vector<int32_t>> ReadEndTokenIds(const Checkpoint& checkpoint) {
  HEADWAY_ASSIGN_OR_RETURN(std::set<int32_t> ids, EndIds(checkpoint));
  return std::vector<int32_t>(ids.begin(), ids.end());
}

}  // namespace headway
