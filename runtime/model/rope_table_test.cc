#include "runtime/model/rope_table.h"

#include <bit>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/hash.h"

namespace headway {
namespace {

using Kind = RopeConfig::Kind;

// Frequencies as the models' reference code computes them, over long double and libm.
std::vector<long double> Plain(double theta, int head_dim) {
  std::vector<long double> frequencies;
  for (int i = 0; i < head_dim / 2; ++i) {
    frequencies.push_back(std::pow(static_cast<long double>(theta), -2.0L * i / head_dim));
  }
  return frequencies;
}

void ExpectNear(const std::vector<double>& found, const std::vector<long double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i] / static_cast<double>(wanted[i]), 1, 1e-13) << i;
  }
}

TEST(RopeFrequenciesTest, Plain) {
  for (const int head_dim : {2, 6, 64, 128}) {
    ExpectNear(RopeFrequencies({.theta = 500000}, head_dim), Plain(500000, head_dim));
  }
}

TEST(RopeFrequenciesTest, LinearDividesAll) {
  std::vector<long double> wanted = Plain(10000, 16);
  for (long double& f : wanted) f /= 4;
  ExpectNear(RopeFrequencies({.kind = Kind::kLinear, .factor = 4}, 16), wanted);
}

TEST(RopeFrequenciesTest, Llama3HasThreeBands) {
  const RopeConfig rope = {.kind = Kind::kLlama3,
                           .theta = 500000,
                           .factor = 8,
                           .low_freq_factor = 1,
                           .high_freq_factor = 4,
                           .original_max_positions = 8192};
  std::vector<long double> wanted = Plain(500000, 128);
  int kept = 0, divided = 0;
  for (long double& f : wanted) {
    const long double wave = 2 * M_PIl / f;
    if (wave > 8192.0L) {
      f /= 8, ++divided;
    } else if (wave < 8192.0L / 4) {
      ++kept;
    } else {
      const long double smooth = (8192 / wave - 1) / 3;
      f = (1 - smooth) * f / 8 + smooth * f;
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(divided, 0);
  EXPECT_LT(kept + divided, 64);
  ExpectNear(RopeFrequencies(rope, 128), wanted);
}

// What each pair of dimensions is divided by in two published models, to five digits.
TEST(RopeFrequenciesTest, Llama3DividesAsInPublishedModels) {
  struct Published {
    int head_dim;
    double factor;
    std::vector<double> blended;  // of the pairs from `first` on; those before are not divided
    int first;
  };
  for (const auto& [head_dim, factor, blended, first] :
       {Published{128, 8, {1.20748, 1.55341, 2.02631, 2.69453, 3.68425, 5.25733}, 29},
        Published{64, 32, {1.65133, 3.29226, 9.66673}, 15}}) {
    const std::vector<double> found = RopeFrequencies({.kind = Kind::kLlama3,
                                                       .theta = 500000,
                                                       .factor = factor,
                                                       .low_freq_factor = 1,
                                                       .high_freq_factor = 4,
                                                       .original_max_positions = 8192},
                                                      head_dim);
    const std::vector<double> plain = RopeFrequencies({.theta = 500000}, head_dim);
    ASSERT_EQ(found.size(), static_cast<size_t>(head_dim / 2));
    for (int pair = 0; pair < head_dim / 2; ++pair) {
      const int at = pair - first;
      const double wanted = at < 0                                   ? 1
                            : at >= static_cast<int>(blended.size()) ? factor
                                                                     : blended[at];
      EXPECT_NEAR(plain[pair] / found[pair], wanted, 5.1e-6) << "pair " << pair;
    }
    // A file may also store the divisors; then they are applied, and the rest is plain.
    std::vector<float> divisors;
    for (int pair = 0; pair < head_dim / 2; ++pair) {
      divisors.push_back(static_cast<float>(plain[pair] / found[pair]));
    }
    const std::vector<double> divided =
        RopeFrequencies({.theta = 500000, .frequency_divisors = divisors}, head_dim);
    for (int pair = 0; pair < head_dim / 2; ++pair) {
      EXPECT_NEAR(divided[pair] / found[pair], 1, 1e-7) << "pair " << pair;
    }
  }
}

std::vector<long double> Yarn(const RopeConfig& rope, int head_dim) {
  const auto dimension = [&](double turns) {
    return head_dim * std::log(rope.original_max_positions / (turns * 2 * M_PIl)) /
           (2 * std::log(static_cast<long double>(rope.theta)));
  };
  long double low = dimension(rope.beta_fast), high = dimension(rope.beta_slow);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0L);
  high = std::min(high, head_dim - 1.0L);
  std::vector<long double> frequencies = Plain(rope.theta, head_dim);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const long double ramp = std::clamp((i - low) / (high - low), 0.0L, 1.0L);
    frequencies[i] *= ramp / rope.factor + (1 - ramp);
  }
  return frequencies;
}

TEST(RopeFrequenciesTest, YarnBlends) {
  RopeConfig rope = {.kind = Kind::kYarn, .factor = 4, .original_max_positions = 4096};
  ExpectNear(RopeFrequencies(rope, 128), Yarn(rope, 128));
  rope.truncate = false;
  ExpectNear(RopeFrequencies(rope, 128), Yarn(rope, 128));
  EXPECT_NE(RopeFrequencies(rope, 128)[30], Plain(10000, 128)[30]);
}

TEST(RopeFrequenciesTest, YarnWithAnEmptyRampIsFinite) {
  // Both ends fall on dimension 0.
  const RopeConfig rope = {.kind = Kind::kYarn,
                           .factor = 4,
                           .original_max_positions = 1,
                           .beta_fast = 100,
                           .beta_slow = 50};
  for (const double f : RopeFrequencies(rope, 16)) EXPECT_TRUE(std::isfinite(f) && f > 0);
}

TEST(RopeFrequenciesTest, DivisorsDivide) {
  std::vector<long double> wanted = Plain(10000, 6);
  wanted[1] /= 2;
  wanted[2] /= 8;
  ExpectNear(RopeFrequencies({.frequency_divisors = {1, 2, 8}}, 6), wanted);
}

TEST(RopeTableTest, HoldsCosinesThenSignedSines) {
  RopeConfig rope;
  rope.attention_factor = 1.5;
  constexpr int kHeadDim = 6, kPositions = 5000;
  const auto table = RopeTableBuffer::Create(rope, kHeadDim, kPositions);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->view().head_dim, kHeadDim);
  EXPECT_EQ(table->view().max_positions, kPositions);
  const std::vector<long double> frequencies = Plain(10000, kHeadDim);
  for (const int position : {0, 1, 17, kPositions - 1}) {
    const float* row = table->view().data + position * 2 * kHeadDim;
    for (int i = 0; i < kHeadDim / 2; ++i) {
      const double angle = static_cast<double>(position * frequencies[i]);
      EXPECT_NEAR(row[2 * i], 1.5 * std::cos(angle), 2e-7);
      EXPECT_EQ(row[2 * i + 1], row[2 * i]);
      EXPECT_NEAR(row[kHeadDim + 2 * i], -1.5 * std::sin(angle), 2e-7);
      EXPECT_EQ(row[kHeadDim + 2 * i + 1], -row[kHeadDim + 2 * i]);
    }
  }
}

// The same bits on every machine: nothing here may come from libm or from a contracted product.
TEST(RopeTableTest, BitsAreFixed) {
  const RopeConfig rope = {.kind = Kind::kYarn, .factor = 4, .original_max_positions = 64};
  const auto table = RopeTableBuffer::Create(rope, 64, 1000);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(Hash64(std::as_bytes(std::span(table->view().data, size_t{1000} * 2 * 64))),
            0xc1277f2751574bedu);
}

TEST(RopeTableTest, RefusesWhatItCannotHold) {
  EXPECT_EQ(RopeTableBuffer::Create({}, 7, 10).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RopeTableBuffer::Create({}, 8, 0).status().code(), absl::StatusCode::kInvalidArgument);
  // The first frequency is one radian a position.
  const auto far = RopeTableBuffer::Create({}, 8, (1 << 20) + 1);
  EXPECT_EQ(far.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(far.status().message()), testing::HasSubstr("1048577"));
}

}  // namespace
}  // namespace headway
