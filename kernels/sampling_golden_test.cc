// Sampling against values that another implementation computed in float64 (tests/golden/sampling).
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "kernels/sampling.h"
#include "nlohmann/json.hpp"
#include "tests/shared_data.h"

namespace headway::kernels {
namespace {

using nlohmann::json;

json Cases(const std::string& file) {
  std::ifstream in(GoldenPath("sampling/" + file));
  return json::parse(in).at("cases");
}

// A number, or "-inf".
double Number(const json& value) {
  return value.is_string() ? -std::numeric_limits<double>::infinity() : value.get<double>();
}

std::vector<float> Logits(const json& test) {
  std::vector<float> logits;
  for (const json& value : test.at("logits")) logits.push_back(static_cast<float>(Number(value)));
  return logits;
}

template <size_t kWords>
std::array<uint32_t, kWords> Words(const json& text) {
  std::array<uint32_t, kWords> words;
  std::istringstream in(text.get<std::string>());
  for (uint32_t& word : words) in >> std::hex >> word;
  EXPECT_TRUE(in);
  return words;
}

TEST(SamplingGoldenTest, Philox) {
  const json cases = Cases("philox.json");
  EXPECT_EQ(cases.size(), 30u);
  for (const json& test : cases) {
    EXPECT_EQ(Philox4x32(Words<4>(test.at("counter")), Words<2>(test.at("key"))),
              Words<4>(test.at("out")))
        << test;
  }
}

TEST(SamplingGoldenTest, FinalDistribution) {
  const std::set<std::string> known = {"temperature", "top_k", "top_p",
                                       "banned",      "eos",   "min_tokens"};
  int compared = 0, refused = 0;
  for (const json& test : Cases("cases.json")) {
    const json& params = test.at("params");
    bool ours = true;
    for (const auto& [name, value] : params.items()) ours &= known.count(name) == 1;
    if (!ours) continue;
    SCOPED_TRACE(test.at("name").get<std::string>());
    const std::vector<float> logits = Logits(test);
    std::vector<int32_t> banned = params.value("banned", std::vector<int32_t>());
    if (params.value("min_tokens", 0) > static_cast<int>(test.at("output").size())) {
      for (int32_t token : params.at("eos")) banned.push_back(token);
    }
    const SamplerSettings settings = {.temperature = params.value("temperature", 1.0f),
                                      .top_k = params.value("top_k", 0),
                                      .top_p = params.value("top_p", 1.0f)};
    SamplingWorkspace workspace(static_cast<int>(logits.size()));
    const auto result = FinalDistribution(logits, banned, settings, workspace);
    if (test.contains("error")) {
      ++refused;
      EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    ++compared;
    ASSERT_TRUE(result.ok()) << result.status();
    std::vector<double> probabilities(logits.size());
    for (const auto& c : *result) probabilities[c.token] = c.probability;
    // 1e-9 is what the cases promise: none has a cut closer to its threshold. Our temperature is a
    // float32: a relative change d of it moves log p by d (log p + entropy).
    const double temperature = params.value("temperature", 1.0);
    const double change =
        temperature == 0 ? 0 : std::abs(settings.temperature - temperature) / temperature;
    double entropy = 0;
    for (const json& p : test.at("probs")) {
      if (p.get<double>() > 0) entropy -= p.get<double>() * std::log(p.get<double>());
    }
    for (size_t i = 0; i < logits.size(); ++i) {
      const double right = test.at("probs")[i].get<double>();
      if (right < 1e-300) {  // a number that may count as zero, or a removed token
        EXPECT_LE(probabilities[i], right == 0 ? 0 : 2e-300) << "token " << i;
        continue;
      }
      const double tolerance = 1e-9 + 1.1 * change * (entropy - std::log(right));
      EXPECT_NEAR(probabilities[i], right, tolerance * right) << "token " << i;
    }
  }
  EXPECT_EQ(compared, 92);
  EXPECT_EQ(refused, 2);
}

TEST(SamplingGoldenTest, Logprobs) {
  const json cases = Cases("logprobs.json");
  EXPECT_EQ(cases.size(), 24u);
  for (const json& test : cases) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const std::vector<float> logits = Logits(test);
    SamplingWorkspace workspace(static_cast<int>(logits.size()));
    TokenLogprob chosen;
    std::vector<TokenLogprob> top;
    const int top_n = test.at("top_n").get<int>();
    Logprobs(logits, test.at("chosen").get<int>(), top_n, workspace, &chosen, &top);
    // Computed in float64 on both sides, then rounded to float32: the same to the last bit or the
    // one beside it.
    const auto expect = [](float value, double right) {
      const auto rounded = static_cast<float>(right);
      EXPECT_GE(value, std::nextafter(rounded, -std::numeric_limits<float>::infinity()));
      EXPECT_LE(value, std::nextafter(rounded, std::numeric_limits<float>::infinity()));
    };
    expect(chosen.logprob, Number(test.at("chosen_logprob")));
    ASSERT_EQ(top.size(), test.at("top").size());
    for (size_t i = 0; i < top.size(); ++i) {
      EXPECT_EQ(top[i].token, test.at("top")[i][0].get<int>());
      expect(top[i].logprob, Number(test.at("top")[i][1]));
    }
    // The rank of the chosen token follows the same order.
    Logprobs(logits, test.at("chosen").get<int>(), static_cast<int>(logits.size()), workspace,
             &chosen, &top);
    EXPECT_EQ(top[test.at("chosen_rank").get<size_t>() - 1].token, chosen.token);
  }
}

}  // namespace
}  // namespace headway::kernels
