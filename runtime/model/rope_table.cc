#include "runtime/model/rope_table.h"

#include <algorithm>
#include <cmath>

#include "kernels/fixed_math.h"
#include "runtime/base/status.h"

namespace headway {
namespace {

constexpr double kTwoPi = 6.283185307179586477;
constexpr double kMostRadians = 1 << 20;  // what fixed_math::SinCos takes

// Low frequencies (long waves) are divided by the factor, high ones kept, those between blended.
double Llama3Frequency(const RopeConfig& rope, double frequency) {
  const double turns = rope.original_max_positions * frequency / kTwoPi;
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  if (turns > rope.high_freq_factor) return frequency;
  const double keep =
      (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - keep) * frequency / rope.factor + keep * frequency;
}

// Where along the dimensions a frequency makes `turns` turns over the original length.
double YarnDimension(const RopeConfig& rope, int head_dim, double turns) {
  return head_dim * fixed_math::Log(rope.original_max_positions / (turns * kTwoPi)) /
         (2 * fixed_math::Log(rope.theta));
}

// yarn: from `low` to `high` the frequencies pass from kept to divided by the factor.
void ScaleYarn(const RopeConfig& rope, int head_dim, std::vector<double>& frequencies) {
  double low = YarnDimension(rope, head_dim, rope.beta_fast);
  double high = YarnDimension(rope, head_dim, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, head_dim - 1.0);
  if (low == high) high += 0.001;  // as published: keeps the ramp's slope finite
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / rope.factor * ramp + frequencies[i] * (1 - ramp);
  }
}

}  // namespace

std::vector<double> RopeFrequencies(const RopeConfig& rope, int head_dim) {
  std::vector<double> frequencies(head_dim / 2);
  const double log_theta = fixed_math::Log(rope.theta);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = fixed_math::Exp(-2.0 * static_cast<double>(i) / head_dim * log_theta);
  }
  switch (rope.kind) {
    case RopeConfig::Kind::kPlain:
      break;
    case RopeConfig::Kind::kLinear:
      for (double& f : frequencies) f /= rope.factor;
      break;
    case RopeConfig::Kind::kLlama3:
      for (double& f : frequencies) f = Llama3Frequency(rope, f);
      break;
    case RopeConfig::Kind::kYarn:
      ScaleYarn(rope, head_dim, frequencies);
      break;
  }
  for (size_t i = 0; i < rope.frequency_divisors.size() && i < frequencies.size(); ++i) {
    frequencies[i] /= rope.frequency_divisors[i];
  }
  return frequencies;
}

absl::StatusOr<RopeTableBuffer> RopeTableBuffer::Create(const RopeConfig& rope, int head_dim,
                                                        int max_positions) {
  if (head_dim < 2 || head_dim % 2 != 0 || max_positions < 1) {
    return absl::InvalidArgumentError(absl::StrCat("rope table: ", max_positions,
                                                   " positions of a head of ", head_dim,
                                                   " dimensions; at least 1, and even from 2"));
  }
  const std::vector<double> frequencies = RopeFrequencies(rope, head_dim);
  const double fastest = *std::max_element(frequencies.begin(), frequencies.end());
  if (fastest * max_positions > kMostRadians) {
    return absl::InvalidArgumentError(
        absl::StrCat("rope table: ", max_positions, " positions turn by up to ",
                     fastest * max_positions, " radians; at most ", kMostRadians));
  }
  RopeTableBuffer table;
  const int64_t row = int64_t{2} * head_dim;
  HEADWAY_ASSIGN_OR_RETURN(table.memory_,
                           HostBuffer::Allocate(sizeof(float) * row * max_positions));
  float* out = table.memory_.As<float>();
  for (int position = 0; position < max_positions; ++position, out += row) {
    for (size_t i = 0; i < frequencies.size(); ++i) {
      double sine, cosine;
      fixed_math::SinCos(position * frequencies[i], &sine, &cosine);
      const float c = static_cast<float>(cosine * rope.attention_factor);
      const float s = static_cast<float>(sine * rope.attention_factor);
      out[2 * i] = out[2 * i + 1] = c;
      out[head_dim + 2 * i] = -s;
      out[head_dim + 2 * i + 1] = s;
    }
  }
  table.view_ = {
      .data = table.memory_.As<float>(), .head_dim = head_dim, .max_positions = max_positions};
  return table;
}

}  // namespace headway
