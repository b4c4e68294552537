#include "kernels/sampling.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/fixed_math.h"
#include "runtime/base/check.h"
#include "runtime/base/status.h"

// A vocabulary is never sorted. Its tokens fall into buckets by logit, a bucket holding the tokens
// of a small range; which buckets are kept and which one is drawn follows from their masses, and
// only the one or two that a cut or the draw falls into are sorted.

namespace headway::kernels {
namespace {

using Candidate = SamplingWorkspace::Candidate;

constexpr int kBuckets = SamplingWorkspace::kBuckets;
constexpr uint16_t kRemoved = 0xffff;
static_assert(kBuckets <= kRemoved);
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kLanes = 16;  // sums over a vocabulary are 16 sums, added in order
constexpr int kBlock = 256;
static_assert(kBlock % kLanes == 0);

// Higher logit first, then lower id.
bool Before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// weights[i] = e^((logits[i] - max) / temperature), never 0.
void Weights(const float* logits, int count, float max, double inverse_temperature,
             double* weights) {
  for (int i = 0; i < count; ++i) {
    const double x = (static_cast<double>(logits[i]) - max) * inverse_temperature;
    weights[i] = x > fixed_math::kExpLowest ? x : fixed_math::kExpLowest;
  }
  // A loop of its own, so that the compiler vectorises it.
  for (int i = 0; i < count; ++i) weights[i] = fixed_math::ExpInRange(weights[i]);
}

struct Range {
  float max = -kInfinity;
  float min = kInfinity;  // of those above -infinity
};

// InvalidArgument when a logit is NaN or infinite (but -infinity means "removed"), or when nothing
// is left.
absl::StatusOr<Range> CheckedRange(std::span<const float> logits) {
  float max[kLanes], min[kLanes];
  uint32_t bad[kLanes] = {};
  std::fill_n(max, kLanes, -kInfinity);
  std::fill_n(min, kLanes, kInfinity);
  for (size_t begin = 0; begin < logits.size(); begin += kLanes) {
    const float* v = &logits[begin];
    const int count = static_cast<int>(std::min<size_t>(kLanes, logits.size() - begin));
    const auto take = [&](int lane) {
      max[lane] = v[lane] > max[lane] ? v[lane] : max[lane];
      const float finite = v[lane] > -kInfinity ? v[lane] : kInfinity;
      min[lane] = finite < min[lane] ? finite : min[lane];
      bad[lane] |= v[lane] < kInfinity ? 0 : 1;
    };
    if (count == kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) take(lane);
    } else {
      for (int lane = 0; lane < count; ++lane) take(lane);
    }
  }
  Range range;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (bad[lane]) {
      const auto is_bad = [](float v) { return !(v < kInfinity); };
      const auto at = std::find_if(logits.begin(), logits.end(), is_bad);
      return absl::InvalidArgumentError(
          absl::StrCat("sampling: the logit of token ", at - logits.begin(), " is ", *at));
    }
    range.max = std::max(range.max, max[lane]);
    range.min = std::min(range.min, min[lane]);
  }
  if (range.max == -kInfinity) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling: all ", logits.size(), " tokens are removed"));
  }
  return range;
}

// The distribution that a token is drawn from: buckets 0 to last, of the last one only the first
// `kept_of_last` in order.
class Distribution {
 public:
  Distribution(std::span<const float> logits, const Range& range, const SamplerSettings& settings,
               SamplingWorkspace& workspace)
      : logits_(logits),
        max_(range.max),
        inverse_temperature_(1 / static_cast<double>(settings.temperature)),
        workspace_(workspace) {
    FillBuckets(range, settings.temperature);
    int kept = 0;
    for (int bucket = 0; bucket < kBuckets; ++bucket) kept += workspace_.counts[bucket];
    if (settings.top_k > 0 && settings.top_k < kept) {
      KeepFirst(settings.top_k);
      WeighFew();
    } else {
      kept_of_last_ = workspace_.counts[last_];
      WeighAll();
    }
    mass_ = Sum();
    if (settings.top_p < 1) KeepMass(settings.top_p * mass_);
  }

  // The first token whose cumulative probability exceeds `uniform`.
  int32_t Draw(double uniform) {
    const double target = uniform * mass_;
    double below = 0;
    for (int bucket = 0;; ++bucket) {
      const double with = below + workspace_.masses[bucket];
      if (with <= target && bucket < last_) {
        below = with;
        continue;
      }
      const std::span<const Candidate> tokens = Sorted(bucket);
      for (const Candidate& token : tokens) {
        below += token.probability;
        if (below > target) return token.token;
      }
      // The sum in order may be smaller than the bucket's mass by a rounding: its end is meant.
      return tokens.back().token;
    }
  }

  // All that are left, most likely first, with their probabilities.
  std::span<const Candidate> All() {
    std::array<size_t, kBuckets> ends;  // of what is filled so far
    size_t begin = 0;
    for (int bucket = 0; bucket <= last_; ++bucket) {
      ends[bucket] = begin;
      begin += static_cast<size_t>(workspace_.counts[bucket]);
    }
    for (size_t i = 0; i < logits_.size(); ++i) {
      const uint16_t bucket = workspace_.bucket_of[i];
      if (bucket > last_) continue;
      workspace_.candidates[ends[bucket]++] = {static_cast<int32_t>(i), logits_[i], 0};
    }
    size_t kept = 0;
    for (int bucket = 0; bucket <= last_; ++bucket) {
      kept += Sort(bucket, &workspace_.candidates[kept]).size();
    }
    const std::span<Candidate> all = std::span(workspace_.candidates).first(kept);
    for (Candidate& token : all) token.probability /= mass_;
    return all;
  }

 private:
  void FillBuckets(const Range& range, float temperature) {
    // Beyond `cut` the weight, which is relative to the most likely token's, would be 0.
    const double lowest = -fixed_math::kExpLowest * static_cast<double>(temperature);
    const float cut = static_cast<float>(std::min(lowest, static_cast<double>(FLT_MAX)));
    const float width = std::min(range.max - range.min, cut);
    constexpr float limit = kBuckets - 1;
    const float scale = width > FLT_MIN * kBuckets ? limit / width : 0;  // finite
    uint16_t* buckets = workspace_.bucket_of.data();
    // Monotone in the logit, roundings included, so buckets are in the order of their tokens.
    for (size_t i = 0; i < logits_.size(); ++i) {
      const float below = max_ - logits_[i];
      const int bucket = static_cast<int>(std::min(std::min(below, cut) * scale, limit));
      buckets[i] = below <= cut ? static_cast<uint16_t>(bucket) : kRemoved;
    }
    std::fill(workspace_.counts.begin(), workspace_.counts.end(), 0);
    for (size_t i = 0; i < logits_.size(); ++i) {
      if (buckets[i] != kRemoved) ++workspace_.counts[buckets[i]];
    }
    last_ = kBuckets - 1;
    while (workspace_.counts[last_] == 0) --last_;
  }

  void KeepFirst(int count) {
    for (last_ = 0; workspace_.counts[last_] < count; ++last_) count -= workspace_.counts[last_];
    kept_of_last_ = count;
  }

  // The mass of each bucket, where few tokens are left: of those alone.
  void WeighFew() {
    std::fill(workspace_.masses.begin(), workspace_.masses.end(), 0);
    for (size_t i = 0; i < logits_.size(); ++i) {
      if (workspace_.bucket_of[i] >= last_) continue;
      double weight;
      Weights(&logits_[i], 1, max_, inverse_temperature_, &weight);
      workspace_.masses[workspace_.bucket_of[i]] += weight;
    }
    for (const Candidate& token : Sorted(last_)) workspace_.masses[last_] += token.probability;
  }

  // The same where all are left: block by block, so that the exponentials are vectorised.
  void WeighAll() {
    std::fill(workspace_.masses.begin(), workspace_.masses.end(), 0);
    double weights[kBlock];
    const int total = static_cast<int>(logits_.size());
    for (int begin = 0; begin < total; begin += kBlock) {
      const int count = std::min(kBlock, total - begin);
      Weights(&logits_[begin], count, max_, inverse_temperature_, weights);
      for (int i = 0; i < count; ++i) {
        const uint16_t bucket = workspace_.bucket_of[begin + i];
        if (bucket != kRemoved) workspace_.masses[bucket] += weights[i];
      }
    }
  }

  double Sum() const {
    double sum = 0;
    for (int bucket = 0; bucket <= last_; ++bucket) sum += workspace_.masses[bucket];
    return sum;
  }

  // Keeps the smallest set of most likely tokens whose weights sum to `mass` or more.
  void KeepMass(double mass) {
    double sum = 0;
    int bucket = 0;
    while (bucket < last_ && sum + workspace_.masses[bucket] < mass) {
      sum += workspace_.masses[bucket++];
    }
    const std::span<const Candidate> tokens = Sorted(bucket);
    double of_last = 0;
    int kept = 0;
    for (const Candidate& token : tokens) {
      of_last += token.probability;
      ++kept;
      if (sum + of_last >= mass) break;
    }
    last_ = bucket;
    kept_of_last_ = kept;
    workspace_.masses[last_] = of_last;
    mass_ = sum + of_last;
  }

  // What is kept of a bucket that is not empty, in order, with weights in place of probabilities.
  std::span<const Candidate> Sorted(int bucket) {
    Candidate* end = workspace_.candidates.data();
    const uint16_t wanted = static_cast<uint16_t>(bucket);
    for (size_t i = 0; i < logits_.size(); ++i) {
      if (workspace_.bucket_of[i] == wanted) {
        *end++ = {static_cast<int32_t>(i), logits_[i], 0};
      }
    }
    return Sort(bucket, workspace_.candidates.data());
  }

  // The same when the bucket's tokens lie at `begin` already.
  std::span<const Candidate> Sort(int bucket, Candidate* begin) {
    const int kept = bucket == last_ ? kept_of_last_ : workspace_.counts[bucket];
    std::sort(begin, begin + workspace_.counts[bucket], Before);
    for (Candidate* token = begin; token < begin + kept; ++token) {
      Weights(&token->logit, 1, max_, inverse_temperature_, &token->probability);
    }
    return {begin, static_cast<size_t>(kept)};
  }

  const std::span<const float> logits_;  // masked
  const float max_;
  const double inverse_temperature_;
  SamplingWorkspace& workspace_;
  int last_ = 0;
  int kept_of_last_ = 0;
  double mass_ = 0;  // of all that are kept
};

absl::Status CheckSettings(const SamplerSettings& settings) {
  if (!(settings.temperature >= 0 && settings.temperature < kInfinity)) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling: temperature ", settings.temperature, " is not 0 or above"));
  }
  if (settings.top_k < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling: top_k ", settings.top_k, " is below 0"));
  }
  if (!(settings.top_p >= 0 && settings.top_p <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling: top_p ", settings.top_p, " is not within 0 and 1"));
  }
  return absl::OkStatus();
}

// The logits without the banned tokens.
absl::StatusOr<std::span<const float>> Masked(std::span<const float> logits,
                                              std::span<const int32_t> banned,
                                              SamplingWorkspace& workspace) {
  if (logits.size() > workspace.masked.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sampling: ", logits.size(), " logits, the workspace is for ", workspace.masked.size()));
  }
  if (banned.empty()) return logits;
  const std::span<float> masked = std::span(workspace.masked).first(logits.size());
  std::copy(logits.begin(), logits.end(), masked.begin());
  for (int32_t token : banned) {
    if (token >= 0 && static_cast<size_t>(token) < masked.size()) masked[token] = -kInfinity;
  }
  return masked;
}

int32_t FirstOf(std::span<const float> logits, float value) {
  return static_cast<int32_t>(std::find(logits.begin(), logits.end(), value) - logits.begin());
}

}  // namespace

SamplingWorkspace::SamplingWorkspace(int vocabulary)
    : candidates(static_cast<size_t>(vocabulary)),
      masked(static_cast<size_t>(vocabulary)),
      bucket_of(static_cast<size_t>(vocabulary)) {}

std::array<uint32_t, 4> Philox4x32(const std::array<uint32_t, 4>& counter,
                                   const std::array<uint32_t, 2>& key) {
  std::array<uint32_t, 4> c = counter;
  std::array<uint32_t, 2> k = key;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53} * c[0];
    const uint64_t b = uint64_t{0xcd9e8d57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(a)};
    k[0] += 0x9e3779b9;
    k[1] += 0xbb67ae85;
  }
  return c;
}

std::array<uint32_t, 2> SamplingKey(uint64_t seed, int choice) {
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed),
                                       static_cast<uint32_t>(seed >> 32)};
  // The last word keeps these counters apart from those of positions.
  const auto words = Philox4x32({static_cast<uint32_t>(choice), 0, 0, 1}, key);
  return {words[0], words[1]};
}

double UniformAt(const std::array<uint32_t, 2>& key, int64_t position) {
  const auto p = static_cast<uint64_t>(position);
  const auto words =
      Philox4x32({static_cast<uint32_t>(p), static_cast<uint32_t>(p >> 32), 0, 0}, key);
  const uint64_t bits = (uint64_t{words[1]} << 32 | words[0]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

absl::StatusOr<std::span<const Candidate>> FinalDistribution(std::span<const float> logits,
                                                             std::span<const int32_t> banned,
                                                             const SamplerSettings& settings,
                                                             SamplingWorkspace& workspace) {
  HEADWAY_RETURN_IF_ERROR(CheckSettings(settings));
  HEADWAY_ASSIGN_OR_RETURN(const std::span<const float> left, Masked(logits, banned, workspace));
  HEADWAY_ASSIGN_OR_RETURN(const Range range, CheckedRange(left));
  if (settings.temperature == 0) {
    workspace.candidates[0] = {FirstOf(left, range.max), range.max, 1};
    return std::span<const Candidate>(workspace.candidates).first(1);
  }
  return Distribution(left, range, settings, workspace).All();
}

absl::StatusOr<int32_t> SampleToken(std::span<const float> logits, std::span<const int32_t> banned,
                                    const SamplerSettings& settings,
                                    const std::array<uint32_t, 2>& key, int64_t position,
                                    SamplingWorkspace& workspace) {
  HEADWAY_RETURN_IF_ERROR(CheckSettings(settings));
  HEADWAY_ASSIGN_OR_RETURN(const std::span<const float> left, Masked(logits, banned, workspace));
  HEADWAY_ASSIGN_OR_RETURN(const Range range, CheckedRange(left));
  if (settings.temperature == 0) return FirstOf(left, range.max);
  return Distribution(left, range, settings, workspace).Draw(UniformAt(key, position));
}

void Logprobs(std::span<const float> logits, int32_t token, int top_n, SamplingWorkspace& workspace,
              TokenLogprob* chosen, std::vector<TokenLogprob>* top) {
  HEADWAY_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size());
  const float max = *std::max_element(logits.begin(), logits.end());
  double lanes[kLanes] = {};
  double weights[kBlock];
  const int total = static_cast<int>(logits.size());
  for (int begin = 0; begin < total; begin += kBlock) {
    const int count = std::min(kBlock, total - begin);
    Weights(&logits[begin], count, max, 1, weights);
    std::fill(weights + count, weights + kBlock, 0);
    for (int i = 0; i < kBlock; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += weights[i + lane];
    }
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  const double log_sum = fixed_math::Log(sum);
  const auto logprob = [&](int32_t t) {
    return TokenLogprob{t, static_cast<float>((static_cast<double>(logits[t]) - max) - log_sum)};
  };
  *chosen = logprob(token);

  // A heap of the best so far, the worst of them on top.
  const int wanted = std::clamp(top_n, 0, total);
  Candidate* const best = workspace.candidates.data();
  int filled = 0;
  for (int32_t t = 0; t < total && wanted > 0; ++t) {
    if (filled == wanted && !(logits[t] > best[0].logit)) continue;
    if (filled == wanted) std::pop_heap(best, best + filled--, Before);
    best[filled++] = {t, logits[t], 0};
    std::push_heap(best, best + filled, Before);
  }
  std::sort_heap(best, best + filled, Before);
  top->resize(static_cast<size_t>(wanted));
  for (int i = 0; i < wanted; ++i) (*top)[i] = logprob(best[i].token);
}

}  // namespace headway::kernels
