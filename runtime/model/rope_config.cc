#include "runtime/model/rope_config.h"

#include <algorithm>
#include <optional>
#include <string>

#include "kernels/fixed_math.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/base/utf8.h"
#include "runtime/model/config_reader.h"
#include "runtime/tensor/block_formats.h"

namespace headway {
namespace {

// Far beyond any published checkpoint; they keep later arithmetic finite.
constexpr double kLeastTheta = 2, kMostTheta = 1e12;
constexpr double kMostFactor = 1e6;
constexpr double kMostPositions = 1 << 28;
constexpr double kSmall = 1e-6;

std::string Join(std::string_view prefix, std::string_view key) {
  return absl::StrCat(ToAbsl(prefix), ToAbsl(key));
}

absl::Status RefuseKind(std::string_view key, const std::string& kind) {
  if (kind == "dynamic" || kind == "longrope" || kind == "su") {
    return absl::InvalidArgumentError(absl::StrCat(
        ToAbsl(key), " is ", Quoted(kind),
        ", which cannot be served: its frequencies change with the length of the sequence, so "
        "logits at a position would depend on later tokens"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(ToAbsl(key), " is ", Quoted(kind),
                   "; the rope scalings that can be served are default, linear, llama3 and yarn"));
}

// The whole head must be rotated: no served family leaves a part of it alone.
absl::Status CheckWholeHeadRotates(const ConfigReader& reader, std::string_view key) {
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<double> part, reader.OptionalDouble(key, 0, 1));
  if (part.value_or(1) == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      ToAbsl(key), " is ", *part, "; only checkpoints that rotate the whole head can be served"));
}

absl::Status CheckLlama3(const RopeConfig& rope, std::string_view prefix) {
  if (rope.high_freq_factor > rope.low_freq_factor) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Join(prefix, "high_freq_factor"), " is ", rope.high_freq_factor, "; it must be above ",
      Join(prefix, "low_freq_factor"), ", which is ", rope.low_freq_factor));
}

// The yarn settings of an object `prefix` of config.json. An explicit attention_factor wins, then
// the ratio of two mscales, then the magnitude of the factor.
absl::Status ReadHuggingFaceYarn(const ConfigReader& reader, const std::string& prefix,
                                 int max_positions, RopeConfig& rope) {
  HEADWAY_ASSIGN_OR_RETURN(
      const std::optional<double> original,
      reader.OptionalDouble(Join(prefix, "original_max_position_embeddings"), 1, kMostPositions));
  rope.original_max_positions = original.value_or(max_positions);
  const std::string factor_key = Join(prefix, "factor");
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<double> factor,
                           reader.OptionalDouble(factor_key, 1, kMostFactor));
  if (!factor && !original) return MissingKey(factor_key);
  rope.factor = factor ? *factor : std::max(1.0, max_positions / rope.original_max_positions);
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<double> beta_fast,
                           reader.OptionalDouble(Join(prefix, "beta_fast"), kSmall, kMostFactor));
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<double> beta_slow,
                           reader.OptionalDouble(Join(prefix, "beta_slow"), kSmall, kMostFactor));
  rope.beta_fast = beta_fast.value_or(rope.beta_fast);
  rope.beta_slow = beta_slow.value_or(rope.beta_slow);
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<bool> truncate,
                           reader.OptionalBool(Join(prefix, "truncate")));
  rope.truncate = truncate.value_or(true);
  HEADWAY_ASSIGN_OR_RETURN(
      const std::optional<double> attention_factor,
      reader.OptionalDouble(Join(prefix, "attention_factor"), kSmall, kMostFactor));
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<double> mscale,
                           reader.OptionalDouble(Join(prefix, "mscale"), 0, kMostFactor));
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<double> mscale_all_dim,
                           reader.OptionalDouble(Join(prefix, "mscale_all_dim"), 0, kMostFactor));
  if (attention_factor) {
    rope.attention_factor = *attention_factor;
  } else if (mscale.value_or(0) != 0 && mscale_all_dim.value_or(0) != 0) {
    rope.attention_factor =
        YarnMagnitude(rope.factor, *mscale) / YarnMagnitude(rope.factor, *mscale_all_dim);
  } else {
    rope.attention_factor = YarnMagnitude(rope.factor, 1);
  }
  return absl::OkStatus();
}

// llama.cpp's reading of the keys: rope.scaling.attn_factor multiplies the usual magnitude.
absl::Status ReadGgufYarn(const ConfigReader& reader, const std::string& prefix, int max_positions,
                          RopeConfig& rope) {
  HEADWAY_ASSIGN_OR_RETURN(rope.factor, reader.Double(Join(prefix, "factor"), 1, kMostFactor));
  HEADWAY_ASSIGN_OR_RETURN(
      const std::optional<double> original,
      reader.OptionalDouble(Join(prefix, "original_context_length"), 1, kMostPositions));
  rope.original_max_positions = original.value_or(max_positions);
  HEADWAY_ASSIGN_OR_RETURN(
      const std::optional<double> beta_fast,
      reader.OptionalDouble(Join(prefix, "yarn_beta_fast"), kSmall, kMostFactor));
  HEADWAY_ASSIGN_OR_RETURN(
      const std::optional<double> beta_slow,
      reader.OptionalDouble(Join(prefix, "yarn_beta_slow"), kSmall, kMostFactor));
  rope.beta_fast = beta_fast.value_or(rope.beta_fast);
  rope.beta_slow = beta_slow.value_or(rope.beta_slow);
  // Writers disagree on what these two do, so only their neutral value is safe.
  for (const char* key : {"yarn_ext_factor", "yarn_attn_factor"}) {
    HEADWAY_ASSIGN_OR_RETURN(const std::optional<double> value,
                             reader.OptionalDouble(Join(prefix, key), -kMostFactor, kMostFactor));
    if (value.value_or(1) != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(Join(prefix, key), " is ", *value, "; only 1 can be served"));
    }
  }
  HEADWAY_ASSIGN_OR_RETURN(
      const std::optional<double> mscale_all_dim,
      reader.OptionalDouble(Join(prefix, "yarn_log_multiplier"), 0, kMostFactor));
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<double> attention_factor,
                           reader.OptionalDouble(Join(prefix, "attn_factor"), kSmall, kMostFactor));
  rope.attention_factor = YarnMagnitude(rope.factor, 1) /
                          YarnMagnitude(rope.factor, mscale_all_dim.value_or(0)) *
                          attention_factor.value_or(1);
  return absl::OkStatus();
}

absl::Status ReadFrequencyDivisors(const Checkpoint& checkpoint, int head_dim, RopeConfig& rope) {
  constexpr std::string_view kName = "rope_freqs.weight";
  if (!checkpoint.Has(kName)) return absl::OkStatus();
  HEADWAY_ASSIGN_OR_RETURN(const TensorRef tensor, checkpoint.Tensor(kName));
  if (tensor.shape != std::vector<int64_t>{head_dim / 2} || IsQuantised(tensor.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", ToAbsl(kName), " is not a vector of ",
                                                   head_dim / 2, " floats, half of a head"));
  }
  rope.frequency_divisors.resize(head_dim / 2);
  DecodeRow(tensor.dtype, tensor.data, head_dim / 2, rope.frequency_divisors.data());
  for (const float divisor : rope.frequency_divisors) {
    if (!(divisor >= kSmall && divisor <= kMostFactor)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", ToAbsl(kName), " holds ", divisor,
                                                     "; its values must be from ", kSmall, " to ",
                                                     kMostFactor));
    }
  }
  return absl::OkStatus();
}

}  // namespace

double YarnMagnitude(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * fixed_math::Log(factor) + 1.0;
}

absl::StatusOr<RopeConfig> ReadHuggingFaceRope(const Metadata& metadata, int max_positions) {
  const ConfigReader reader(metadata);
  RopeConfig rope;
  const bool newer = reader.Has("rope_parameters");
  const std::string prefix = newer ? "rope_parameters." : "rope_scaling.";
  const bool scaled = newer || reader.Has("rope_scaling");

  std::string theta_key = "rope_theta", part_key = "partial_rotary_factor";
  if (newer && reader.Has("rope_parameters.rope_theta")) theta_key = "rope_parameters.rope_theta";
  if (newer && reader.Has("rope_parameters.partial_rotary_factor")) {
    part_key = "rope_parameters.partial_rotary_factor";
  }
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<double> theta,
                           reader.OptionalDouble(theta_key, kLeastTheta, kMostTheta));
  rope.theta = theta.value_or(rope.theta);
  HEADWAY_RETURN_IF_ERROR(CheckWholeHeadRotates(reader, part_key));
  if (!scaled) return rope;

  std::string kind_key = Join(prefix, "rope_type");
  if (!reader.Has(kind_key) && reader.Has(Join(prefix, "type"))) kind_key = Join(prefix, "type");
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<std::string> kind, reader.OptionalString(kind_key));
  if (!kind && !newer) return MissingKey(kind_key);
  if (!kind || *kind == "default") return rope;

  if (*kind == "linear") {
    rope.kind = RopeConfig::Kind::kLinear;
    HEADWAY_ASSIGN_OR_RETURN(rope.factor, reader.Double(Join(prefix, "factor"), 1, kMostFactor));
    return rope;
  }
  if (*kind == "llama3") {
    rope.kind = RopeConfig::Kind::kLlama3;
    HEADWAY_ASSIGN_OR_RETURN(rope.factor, reader.Double(Join(prefix, "factor"), 1, kMostFactor));
    HEADWAY_ASSIGN_OR_RETURN(rope.low_freq_factor,
                             reader.Double(Join(prefix, "low_freq_factor"), kSmall, kMostFactor));
    HEADWAY_ASSIGN_OR_RETURN(rope.high_freq_factor,
                             reader.Double(Join(prefix, "high_freq_factor"), kSmall, kMostFactor));
    HEADWAY_ASSIGN_OR_RETURN(
        rope.original_max_positions,
        reader.Double(Join(prefix, "original_max_position_embeddings"), 1, kMostPositions));
    HEADWAY_RETURN_IF_ERROR(CheckLlama3(rope, prefix));
    return rope;
  }
  if (*kind == "yarn") {
    rope.kind = RopeConfig::Kind::kYarn;
    HEADWAY_RETURN_IF_ERROR(ReadHuggingFaceYarn(reader, prefix, max_positions, rope));
    return rope;
  }
  return RefuseKind(kind_key, *kind);
}

absl::StatusOr<RopeConfig> ReadGgufRope(const Checkpoint& checkpoint, std::string_view architecture,
                                        int head_dim, int max_positions) {
  const ConfigReader reader(checkpoint.metadata());
  const std::string prefix = Join(architecture, ".rope.");
  RopeConfig rope;
  HEADWAY_ASSIGN_OR_RETURN(
      const std::optional<double> theta,
      reader.OptionalDouble(Join(prefix, "freq_base"), kLeastTheta, kMostTheta));
  rope.theta = theta.value_or(rope.theta);

  const std::string dimension_key = Join(prefix, "dimension_count");
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<int64_t> rotated,
                           reader.OptionalInt(dimension_key, 1, 1 << 20));
  if (rotated.value_or(head_dim) != head_dim) {
    return absl::InvalidArgumentError(absl::StrCat(
        dimension_key, " is ", *rotated, "; only checkpoints that rotate the whole head, here ",
        head_dim, " dimensions, can be served"));
  }
  HEADWAY_RETURN_IF_ERROR(ReadFrequencyDivisors(checkpoint, head_dim, rope));

  const std::string scaling = Join(prefix, "scaling.");
  const std::string kind_key = Join(scaling, "type");
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<std::string> kind, reader.OptionalString(kind_key));
  if (!kind) {
    // What files of 2023 say in place of a type and a factor.
    HEADWAY_ASSIGN_OR_RETURN(const std::optional<double> linear,
                             reader.OptionalDouble(Join(prefix, "scale_linear"), 1, kMostFactor));
    if (linear.value_or(1) != 1) {
      rope.kind = RopeConfig::Kind::kLinear;
      rope.factor = *linear;
    }
    return rope;
  }
  if (*kind == "none") return rope;
  if (*kind == "linear") {
    rope.kind = RopeConfig::Kind::kLinear;
    HEADWAY_ASSIGN_OR_RETURN(rope.factor, reader.Double(Join(scaling, "factor"), 1, kMostFactor));
    return rope;
  }
  if (*kind == "yarn") {
    rope.kind = RopeConfig::Kind::kYarn;
    HEADWAY_RETURN_IF_ERROR(ReadGgufYarn(reader, scaling, max_positions, rope));
    return rope;
  }
  return RefuseKind(kind_key, *kind);
}

}  // namespace headway
