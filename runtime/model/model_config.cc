#include "runtime/model/model_config.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/json.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/base/utf8.h"
#include "runtime/model/config_reader.h"
#include "runtime/model/families/family.h"
#include "runtime/model/rope_config.h"

namespace headway {
namespace {

// Bounds on what a checkpoint may claim, far beyond any published one. They keep every product of
// sizes that is formed before memory is taken within 64 bits, and every single size within 31.
constexpr int64_t kMostLayers = 1024;
constexpr int64_t kMostHidden = 1 << 17;
constexpr int64_t kMostIntermediate = 1 << 20;
constexpr int64_t kMostHeads = 1024;
constexpr int64_t kMostHeadDim = 1024;
constexpr int64_t kMostVocabulary = 1 << 22;
constexpr int64_t kMostPositions = 1 << 24;
constexpr double kLeastEpsilon = 1e-12, kMostEpsilon = 1;

absl::Status CheckFixed(const Metadata& metadata, const FixedSetting& setting) {
  if (!metadata.Has(setting.key)) return absl::OkStatus();
  const ConfigReader reader(metadata);
  using Must = FixedSetting::Must;
  std::string found, wanted;
  switch (setting.must) {
    case Must::kBeAbsent:
      found = "present";
      break;
    case Must::kBeZero: {
      HEADWAY_ASSIGN_OR_RETURN(const int64_t value, metadata.Int(setting.key));
      if (value != 0) found = absl::StrCat(value);
      break;
    }
    case Must::kBeTrue: {
      HEADWAY_ASSIGN_OR_RETURN(const bool value, metadata.Bool(setting.key));
      if (!value) found = "false";
      break;
    }
    case Must::kBeText: {
      HEADWAY_ASSIGN_OR_RETURN(const std::string value, metadata.String(setting.key));
      if (value != setting.text) {
        found = Quoted(value);
        wanted = absl::StrCat(", only \"", ToAbsl(setting.text), "\"");
      }
      break;
    }
  }
  if (found.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(ToAbsl(setting.key), " is ", found, ": ", ToAbsl(setting.why), wanted));
}

absl::Status ReadSizes(const ConfigReader& reader, const ConfigKeys& keys, ModelConfig& config) {
  HEADWAY_ASSIGN_OR_RETURN(config.layers, reader.Int(keys.layers, 1, kMostLayers));
  HEADWAY_ASSIGN_OR_RETURN(config.hidden, reader.Int(keys.hidden, 1, kMostHidden));
  HEADWAY_ASSIGN_OR_RETURN(config.intermediate,
                           reader.Int(keys.intermediate, 1, kMostIntermediate));
  HEADWAY_ASSIGN_OR_RETURN(config.query_heads, reader.Int(keys.query_heads, 1, kMostHeads));
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<int64_t> kv_heads,
                           reader.OptionalInt(keys.kv_heads, 1, kMostHeads));
  config.kv_heads = static_cast<int>(kv_heads.value_or(config.query_heads));
  if (config.query_heads % config.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(keys.kv_heads), " is ", config.kv_heads, ", which does not divide ",
                     ToAbsl(keys.query_heads), ", ", config.query_heads));
  }

  HEADWAY_ASSIGN_OR_RETURN(const std::optional<int64_t> head_dim,
                           reader.OptionalInt(keys.head_dim, 2, kMostHeadDim));
  if (!head_dim && config.hidden % config.query_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        ToAbsl(keys.query_heads), " is ", config.query_heads, ", which does not divide ",
        ToAbsl(keys.hidden), ", ", config.hidden, ", and there is no ", ToAbsl(keys.head_dim)));
  }
  config.head_dim = static_cast<int>(head_dim.value_or(config.hidden / config.query_heads));
  if (config.head_dim % 2 != 0 || config.head_dim > kMostHeadDim) {
    return absl::InvalidArgumentError(
        absl::StrCat(head_dim ? std::string(keys.head_dim)
                              : absl::StrCat(ToAbsl(keys.hidden), " / ", ToAbsl(keys.query_heads)),
                     " is ", config.head_dim,
                     "; a head must be of an even number of dimensions, at most ", kMostHeadDim));
  }
  if (int64_t{config.query_heads} * config.head_dim > kMostIntermediate) {
    return absl::InvalidArgumentError(absl::StrCat(
        ToAbsl(keys.query_heads), " is ", config.query_heads, ": with heads of ", config.head_dim,
        " that is a projection of ", int64_t{config.query_heads} * config.head_dim,
        " rows; at most ", kMostIntermediate));
  }
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<int64_t> value_head_dim,
                           reader.OptionalInt(keys.value_head_dim, 1, kMostHeadDim));
  if (value_head_dim.value_or(config.head_dim) != config.head_dim) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(keys.value_head_dim), " is ", *value_head_dim,
                     "; values as long as keys are needed, here ", config.head_dim));
  }

  HEADWAY_ASSIGN_OR_RETURN(config.max_positions, reader.Int(keys.max_positions, 1, kMostPositions));
  HEADWAY_ASSIGN_OR_RETURN(config.rms_epsilon,
                           reader.Double(keys.rms_epsilon, kLeastEpsilon, kMostEpsilon));
  return absl::OkStatus();
}

absl::Status ReadVocabulary(const Checkpoint& checkpoint, const ConfigReader& reader,
                            const FamilyForm& form, ModelConfig& config) {
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<int64_t> claimed,
                           reader.OptionalInt(form.keys.vocabulary, 1, kMostVocabulary));
  const std::string name = absl::StrCat(ToAbsl(form.tensors.embedding), ".weight");
  HEADWAY_ASSIGN_OR_RETURN(const TensorRef table, checkpoint.Tensor(name));
  if (table.shape.size() != 2 || table.columns() != config.hidden || table.rows() < 1 ||
      table.rows() > kMostVocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " has shape ",
                                                   ShapeText(table.shape), "; wanted [1 to ",
                                                   kMostVocabulary, ", ", config.hidden, "]"));
  }
  if (claimed.value_or(table.rows()) != table.rows()) {
    return absl::InvalidArgumentError(absl::StrCat(ToAbsl(form.keys.vocabulary), " is ", *claimed,
                                                   ", but tensor ", name, " has shape ",
                                                   ShapeText(table.shape)));
  }
  config.vocabulary = static_cast<int>(table.rows());
  return absl::OkStatus();
}

// A window that is as long as the longest sequence is none.
absl::Status CheckNoWindow(const ConfigReader& reader, const ConfigKeys& keys,
                           const ModelConfig& config) {
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<bool> used,
                           reader.OptionalBool(keys.use_sliding_window));
  if (!used.value_or(true)) return absl::OkStatus();
  HEADWAY_ASSIGN_OR_RETURN(
      const std::optional<int64_t> window,
      reader.OptionalInt(keys.sliding_window, 0, std::numeric_limits<int64_t>::max()));
  if (window.value_or(0) == 0 || *window >= config.max_positions) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(ToAbsl(keys.sliding_window), " is ", *window,
                                                 ": sliding windows cannot be served"));
}

// Where the form has a key the key decides; else whether the tensor is there.
absl::StatusOr<bool> HasBias(const Checkpoint& checkpoint, const ConfigReader& reader,
                             const TensorNames& names, std::string_view key,
                             std::string_view tensor) {
  if (key.empty()) return checkpoint.Has(names.Layer(0, tensor, ".bias"));
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<bool> value, reader.OptionalBool(key));
  return value.value_or(false);
}

absl::Status ReadBiases(const Checkpoint& checkpoint, const ConfigReader& reader,
                        const FamilyForm& form, ModelConfig& config) {
  const auto has = [&](std::string_view key, std::string_view tensor) {
    return HasBias(checkpoint, reader, form.tensors, key, tensor);
  };
  HEADWAY_ASSIGN_OR_RETURN(config.attention_bias, has(form.keys.attention_bias, form.tensors.q));
  HEADWAY_ASSIGN_OR_RETURN(config.attention_output_bias,
                           has(form.keys.attention_bias, form.tensors.attention_output));
  HEADWAY_ASSIGN_OR_RETURN(config.mlp_bias, has(form.keys.mlp_bias, form.tensors.down));
  return absl::OkStatus();
}

absl::Status ReadTie(const Checkpoint& checkpoint, const ConfigReader& reader,
                     const FamilyForm& form, ModelConfig& config) {
  if (form.keys.tied_embedding.empty()) {
    config.tied_embedding = !checkpoint.Has(absl::StrCat(ToAbsl(form.tensors.lm_head), ".weight"));
    return absl::OkStatus();
  }
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<bool> tied,
                           reader.OptionalBool(form.keys.tied_embedding));
  config.tied_embedding = tied.value_or(form.tied_by_default);
  return absl::OkStatus();
}

// The dtype of one kind of linear over all layers; where they differ, a quantised one, because
// that has the coarser blocks and one cut must fit every layer.
absl::StatusOr<DType> CoarsestDType(const Checkpoint& checkpoint, const TensorNames& names,
                                    std::string_view tensor, int layers) {
  DType coarsest = DType::kF32;
  for (int i = 0; i < layers; ++i) {
    HEADWAY_ASSIGN_OR_RETURN(const TensorRef ref,
                             checkpoint.Tensor(names.Layer(i, tensor, ".weight")));
    if (i == 0 || (IsQuantised(ref.dtype) && !IsQuantised(coarsest))) coarsest = ref.dtype;
  }
  return coarsest;
}

absl::Status ReadDTypes(const Checkpoint& checkpoint, const TensorNames& names,
                        ModelConfig& config) {
  HEADWAY_ASSIGN_OR_RETURN(config.output_weight,
                           CoarsestDType(checkpoint, names, names.attention_output, config.layers));
  HEADWAY_ASSIGN_OR_RETURN(config.down_weight,
                           CoarsestDType(checkpoint, names, names.down, config.layers));
  const std::string_view head = config.tied_embedding ? names.embedding : names.lm_head;
  HEADWAY_ASSIGN_OR_RETURN(const TensorRef lm_head,
                           checkpoint.Tensor(absl::StrCat(ToAbsl(head), ".weight")));
  config.lm_head_weight = lm_head.dtype;
  return absl::OkStatus();
}

// The generation settings of a Hugging Face folder may name more end tokens than config.json.
void AddGenerationEndTokens(const Checkpoint& checkpoint, std::vector<int64_t>& tokens) {
  const auto file = checkpoint.SideFile("generation_config.json");
  if (!file.ok()) return;  // optional
  const absl::StatusOr<nlohmann::json> json = ParseJson(*file);
  if (!json.ok() || !json->is_object()) return;
  const auto found = json->find("eos_token_id");
  if (found == json->end()) return;
  for (const auto& token : found->is_array() ? *found : nlohmann::json::array({*found})) {
    if (token.is_number_integer()) tokens.push_back(token.get<int64_t>());
  }
}

absl::Status ReadEndTokens(const Checkpoint& checkpoint, std::span<const std::string_view> keys,
                           ModelConfig& config) {
  const Metadata& metadata = checkpoint.metadata();
  std::vector<int64_t> tokens;
  const auto check = [&](std::string_view key) {
    for (const int64_t token : tokens) {
      if (token < config.vocabulary) continue;
      return absl::InvalidArgumentError(absl::StrCat(ToAbsl(key), " names token ", token,
                                                     ", but the model's vocabulary has ",
                                                     config.vocabulary, " tokens"));
    }
    return absl::OkStatus();
  };
  for (const std::string_view key : keys) {
    if (!metadata.Has(key)) continue;
    if (const auto one = metadata.Int(key); one.ok()) {
      tokens.push_back(*one);
    } else {
      HEADWAY_ASSIGN_OR_RETURN(const std::vector<int64_t> several, metadata.Ints(key));
      tokens.insert(tokens.end(), several.begin(), several.end());
    }
    HEADWAY_RETURN_IF_ERROR(check(key));
  }
  if (checkpoint.kind() == Checkpoint::Kind::kHuggingFace) {
    AddGenerationEndTokens(checkpoint, tokens);
    HEADWAY_RETURN_IF_ERROR(check("eos_token_id of generation_config.json"));
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  for (const int64_t token : tokens) {
    // A negative one says that there is none.
    if (token >= 0) config.eos_tokens.push_back(static_cast<int32_t>(token));
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelConfig> Read(const Checkpoint& checkpoint) {
  HEADWAY_ASSIGN_OR_RETURN(const Family* family, FindFamily(checkpoint));
  const FamilyForm& form = family->form(checkpoint.kind());
  const ConfigReader reader(checkpoint.metadata());
  for (const FixedSetting& setting : form.fixed) {
    HEADWAY_RETURN_IF_ERROR(CheckFixed(checkpoint.metadata(), setting));
  }
  ModelConfig config;
  config.family = std::string(family->name);
  config.rope_rows_interleaved = form.rope_rows_interleaved;
  HEADWAY_RETURN_IF_ERROR(ReadSizes(reader, form.keys, config));
  HEADWAY_RETURN_IF_ERROR(CheckNoWindow(reader, form.keys, config));
  if (checkpoint.kind() == Checkpoint::Kind::kGguf) {
    HEADWAY_ASSIGN_OR_RETURN(config.rope, ReadGgufRope(checkpoint, family->gguf_architecture,
                                                       config.head_dim, config.max_positions));
  } else {
    HEADWAY_ASSIGN_OR_RETURN(config.rope,
                             ReadHuggingFaceRope(checkpoint.metadata(), config.max_positions));
  }
  HEADWAY_RETURN_IF_ERROR(ReadVocabulary(checkpoint, reader, form, config));
  HEADWAY_RETURN_IF_ERROR(ReadTie(checkpoint, reader, form, config));
  HEADWAY_RETURN_IF_ERROR(ReadBiases(checkpoint, reader, form, config));
  HEADWAY_RETURN_IF_ERROR(ReadDTypes(checkpoint, form.tensors, config));
  HEADWAY_RETURN_IF_ERROR(ReadEndTokens(checkpoint, form.keys.end_tokens, config));
  return config;
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const Checkpoint& checkpoint) {
  absl::StatusOr<ModelConfig> config = Read(checkpoint);
  if (!config.ok()) return Annotate(config.status(), "reading the model's configuration");
  return config;
}

}  // namespace headway
