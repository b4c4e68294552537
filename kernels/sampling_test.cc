#include "kernels/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/hash.h"

namespace headway::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::array<uint32_t, 2> kKey = {12, 34};

std::vector<float> Normal(int count, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(static_cast<size_t>(count));
  for (float& logit : logits) logit = normal(random);
  return logits;
}

// Many equal values: every cut falls among ties.
std::vector<float> Steps(int count, int steps, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> logits(static_cast<size_t>(count));
  for (float& logit : logits) logit = static_cast<float>(random() % steps);
  return logits;
}

struct Entry {
  int32_t token;
  double probability;
};

// The definition, by sorting everything, in long double.
std::vector<Entry> Reference(const std::vector<float>& logits, const std::vector<int32_t>& banned,
                             const SamplerSettings& settings) {
  std::vector<int32_t> order;
  for (int32_t t = 0; t < static_cast<int32_t>(logits.size()); ++t) {
    if (logits[t] != -kInf && std::find(banned.begin(), banned.end(), t) == banned.end()) {
      order.push_back(t);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  if (settings.temperature == 0) return {{order[0], 1}};
  if (settings.top_k > 0 && static_cast<size_t>(settings.top_k) < order.size()) {
    order.resize(static_cast<size_t>(settings.top_k));
  }
  std::vector<long double> weights;
  long double total = 0;
  for (int32_t t : order) {
    const long double x = (static_cast<long double>(logits[t]) - logits[order[0]]);
    weights.push_back(x / settings.temperature < -708 ? 0 : std::exp(x / settings.temperature));
    total += weights.back();
  }
  size_t kept = order.size();
  if (settings.top_p < 1) {
    long double sum = 0;
    for (kept = 0; kept < order.size();) {
      sum += weights[kept++];
      if (sum >= settings.top_p * total) break;
    }
    total = sum;
  }
  std::vector<Entry> entries;
  for (size_t i = 0; i < kept && weights[i] > 0; ++i) {
    entries.push_back({order[i], static_cast<double>(weights[i] / total)});
  }
  return entries;
}

TEST(SamplingTest, AgreesWithSortingEverything) {
  const std::vector<std::vector<float>> rows = {
      {0.5f},           Normal(2, 1, 1),        Normal(17, 3, 2),   Normal(1000, 2, 3),
      Steps(300, 5, 4), Normal(5000, 0.01f, 5), Normal(999, 50, 6), std::vector<float>(64, 2.5f),
  };
  for (const std::vector<float>& logits : rows) {
    const int n = static_cast<int>(logits.size());
    SamplingWorkspace workspace(n);
    for (float temperature : {0.0f, 1e-6f, 0.3f, 1.0f, 7.0f}) {
      for (int top_k : {0, 1, 2, 40, n - 1, n, n + 5}) {
        for (float top_p : {0.0f, 0.1f, 0.77f, 0.999f, 1.0f}) {
          if (top_k < 0) continue;
          const SamplerSettings settings = {temperature, top_k, top_p};
          const std::vector<int32_t> banned =
              n > 2 ? std::vector<int32_t>{1, n - 1, 1, n, -3} : std::vector<int32_t>();
          const auto result = FinalDistribution(logits, banned, settings, workspace);
          ASSERT_TRUE(result.ok()) << result.status();
          const std::vector<Entry> expected = Reference(logits, banned, settings);
          ASSERT_EQ(result->size(), expected.size())
              << n << " logits, " << temperature << " " << top_k << " " << top_p;
          for (size_t i = 0; i < expected.size(); ++i) {
            ASSERT_EQ((*result)[i].token, expected[i].token);
            ASSERT_EQ((*result)[i].logit, logits[expected[i].token]);
            ASSERT_NEAR((*result)[i].probability, expected[i].probability,
                        1e-12 * expected[i].probability);
          }
        }
      }
    }
  }
}

// The token drawn is the one that the definition names: the first whose cumulative probability
// exceeds the uniform number.
TEST(SamplingTest, DrawsByCumulativeProbability) {
  for (const std::vector<float>& logits : {Normal(700, 2, 1), Steps(700, 9, 2)}) {
    SamplingWorkspace workspace(700);
    for (const SamplerSettings& settings :
         {SamplerSettings{1, 0, 1}, SamplerSettings{0.7f, 50, 1}, SamplerSettings{1.3f, 0, 0.9f},
          SamplerSettings{1, 100, 0.8f}}) {
      const std::vector<int32_t> banned = {5, 6};
      const auto all = FinalDistribution(logits, banned, settings, workspace);
      ASSERT_TRUE(all.ok());
      const std::vector<SamplingWorkspace::Candidate> candidates(all->begin(), all->end());
      for (int64_t position = 0; position < 500; ++position) {
        const double uniform = UniformAt(kKey, position);
        double cumulative = 0;
        size_t i = 0;
        while ((cumulative += candidates[i].probability) <= uniform) ++i;
        ASSERT_EQ(*SampleToken(logits, banned, settings, kKey, position, workspace),
                  candidates[i].token);
      }
    }
  }
}

TEST(SamplingTest, DrawsAsOftenAsProbable) {
  const std::vector<float> logits = {0, 1, -1, 2, 0.5f};
  SamplingWorkspace workspace(5);
  const auto distribution = FinalDistribution(logits, {}, {1, 0, 1}, workspace);
  std::map<int32_t, double> expected;
  for (const auto& c : *distribution) expected[c.token] = c.probability;
  std::map<int32_t, int> drawn;
  constexpr int kDraws = 40'000;
  for (int64_t position = 0; position < kDraws; ++position) {
    ++drawn[*SampleToken(logits, {}, {1, 0, 1}, kKey, position, workspace)];
  }
  for (const auto& [token, probability] : expected) {
    // Five standard deviations; the draws are the same in every run.
    const double deviation = std::sqrt(kDraws * probability * (1 - probability));
    EXPECT_NEAR(drawn[token], kDraws * probability, 5 * deviation) << token;
  }
}

TEST(SamplingTest, SeedsChoicesAndPositionsDrawApart) {
  const auto draws = [](uint64_t seed, int choice) {
    std::vector<double> numbers;
    for (int64_t p : {0, 1, 2}) numbers.push_back(UniformAt(SamplingKey(seed, choice), p));
    numbers.push_back(UniformAt(SamplingKey(seed, choice), int64_t{1} << 32));
    return numbers;
  };
  std::vector<double> all;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, ~uint64_t{0}}) {
    for (int choice : {0, 1, 2}) {
      EXPECT_EQ(draws(seed, choice), draws(seed, choice));
      for (double u : draws(seed, choice)) {
        EXPECT_GE(u, 0);
        EXPECT_LT(u, 1);
        all.push_back(u);
      }
    }
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

// A request with a seed has one answer on every machine: these bits stay.
TEST(SamplingTest, AnswersAreFixed) {
  SamplingWorkspace workspace(3000);
  std::vector<float> logits(3000);
  for (int i = 0; i < 3000; ++i) logits[i] = static_cast<float>((i * 7919) % 3001) / 300.0f;
  std::vector<int32_t> tokens;
  for (const SamplerSettings& settings :
       {SamplerSettings{1, 0, 1}, SamplerSettings{0.8f, 40, 0.95f}}) {
    for (int64_t position = 0; position < 200; ++position) {
      tokens.push_back(*SampleToken(logits, {}, settings, SamplingKey(42, 0), position, workspace));
    }
  }
  EXPECT_EQ(Hash64(std::as_bytes(std::span<const int32_t>(tokens))), 11687544349708623378u);
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;
  Logprobs(logits, 77, 2, workspace, &chosen, &top);
  EXPECT_EQ(chosen.logprob, -0x1.bad6e2p+3f);
}

TEST(SamplingTest, GreedyTiesGoToTheLowerId) {
  SamplingWorkspace workspace(40);
  std::vector<float> logits(40, -1.0f);
  for (int at : {3, 17, 39}) logits[at] = 2;
  EXPECT_EQ(*SampleToken(logits, {}, {}, kKey, 0, workspace), 3);
  const std::vector<int32_t> banned = {3};
  EXPECT_EQ(*SampleToken(logits, banned, {}, kKey, 0, workspace), 17);
  logits[17] = -0.0f;  // equal to 0 as a number
  logits[39] = 0.0f;
  EXPECT_EQ(*SampleToken(logits, banned, {}, kKey, 0, workspace), 17);
}

TEST(SamplingTest, HugeSpreadsAndTemperaturesStayFinite) {
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  SamplingWorkspace workspace(8);
  for (const std::vector<float>& logits :
       {std::vector<float>{-kMost, kMost, 0, kMost}, std::vector<float>{0, kLeast, kLeast, -kLeast},
        std::vector<float>{-kMost, -kMost, -kInf, -kMost}}) {
    for (float temperature : {0.0f, kLeast, 1e-6f, 1.0f, 1e30f, kMost}) {
      const auto all = FinalDistribution(logits, {}, {temperature, 0, 1}, workspace);
      ASSERT_TRUE(all.ok()) << all.status();
      double sum = 0;
      for (const auto& c : *all) {
        EXPECT_GT(c.probability, 0);
        EXPECT_NE(c.logit, -kInf);
        sum += c.probability;
      }
      EXPECT_NEAR(sum, 1, 1e-12);
      EXPECT_TRUE(SampleToken(logits, {}, {temperature, 2, 0.5f}, kKey, 0, workspace).ok());
    }
  }
}

TEST(SamplingTest, RefusesWhatHasNoAnswer) {
  SamplingWorkspace workspace(3);
  const auto text = [&](std::vector<float> logits, std::vector<int32_t> banned,
                        SamplerSettings settings) {
    const auto token = SampleToken(logits, banned, settings, kKey, 0, workspace);
    const auto all = FinalDistribution(logits, banned, settings, workspace);
    EXPECT_EQ(token.status(), all.status());
    EXPECT_EQ(token.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(token.status().message());
  };
  for (float temperature : {0.0f, 1.0f}) {
    const SamplerSettings settings = {temperature, 0, 1};
    EXPECT_EQ(text({0, kNaN, 1}, {}, settings), "sampling: the logit of token 1 is nan");
    EXPECT_EQ(text({0, 1, kInf}, {}, settings), "sampling: the logit of token 2 is inf");
    EXPECT_EQ(text({0, 1, 2}, {0, 1, 2}, settings), "sampling: all 3 tokens are removed");
    EXPECT_EQ(text({-kInf, 1}, {1}, settings), "sampling: all 2 tokens are removed");
    EXPECT_EQ(text({}, {}, settings), "sampling: all 0 tokens are removed");
    EXPECT_EQ(text({1, 2, 3, 4}, {}, settings), "sampling: 4 logits, the workspace is for 3");
  }
  EXPECT_THAT(text({0, 1}, {}, {-0.5f, 0, 1}), HasSubstr("temperature -0.5"));
  EXPECT_THAT(text({0, 1}, {}, {kNaN, 0, 1}), HasSubstr("temperature nan"));
  EXPECT_THAT(text({0, 1}, {}, {kInf, 0, 1}), HasSubstr("temperature inf"));
  EXPECT_THAT(text({0, 1}, {}, {1, -1, 1}), HasSubstr("top_k -1"));
  EXPECT_THAT(text({0, 1}, {}, {1, 0, 1.5f}), HasSubstr("top_p 1.5"));
  EXPECT_THAT(text({0, 1}, {}, {1, 0, kNaN}), HasSubstr("top_p nan"));
  // What is banned is not looked at.
  const std::vector<float> logits = {kNaN, 1};
  const std::vector<int32_t> banned = {0};
  EXPECT_EQ(*SampleToken(logits, banned, {}, kKey, 0, workspace), 1);
}

TEST(LogprobsTest, TopIsBoundedByTheVocabularyAndTiesGoToTheLowerId) {
  SamplingWorkspace workspace(4);
  const std::vector<float> logits = {1, 3, 1, 3};
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;
  for (int wanted : {-1, 0, 1, 3, 4, 20}) {
    Logprobs(logits, 2, wanted, workspace, &chosen, &top);
    std::vector<int32_t> tokens;
    for (const TokenLogprob& t : top) tokens.push_back(t.token);
    const std::vector<int32_t> all = {1, 3, 0, 2};
    EXPECT_EQ(tokens, std::vector<int32_t>(all.begin(), all.begin() + std::clamp(wanted, 0, 4)));
  }
  EXPECT_EQ(chosen.token, 2);
  EXPECT_EQ(chosen.logprob, top[3].logprob);
}

}  // namespace
}  // namespace headway::kernels
