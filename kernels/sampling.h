#ifndef HEADWAY_KERNELS_SAMPLING_H_
#define HEADWAY_KERNELS_SAMPLING_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace headway::kernels {

// Philox 4x32-10, the published counter-based generator: four words from (counter, key).
std::array<uint32_t, 4> Philox4x32(const std::array<uint32_t, 4>& counter,
                                   const std::array<uint32_t, 2>& key);

// Key of choice `choice` of a request with `seed`: the first two words at counter {choice, 0, 0, 1}
// under the key {seed low, seed high}.
std::array<uint32_t, 2> SamplingKey(uint64_t seed, int choice);

// Uniform in [0, 1): the upper 53 bits of {second word, first word} at counter {position low,
// position high, 0, 0}.
double UniformAt(const std::array<uint32_t, 2>& key, int64_t position);

struct SamplerSettings {
  float temperature = 0;  // 0: the greatest logit, ties to the lower id
  int top_k = 0;          // 0: off
  float top_p = 1;        // 1: off
};

// Scratch of the sampler, sized for a vocabulary once; not thread-safe. Its contents mean nothing
// outside a call, but for what FinalDistribution returns.
class SamplingWorkspace {
 public:
  explicit SamplingWorkspace(int vocabulary);
  struct Candidate {
    int32_t token;
    float logit;
    double probability;
  };
  static constexpr int kBuckets = 1024;
  // [vocabulary] each
  std::vector<Candidate> candidates;
  std::vector<float> masked;
  std::vector<uint16_t> bucket_of;
  std::array<int32_t, kBuckets> counts;  // tokens of a bucket
  std::array<double, kBuckets> masses;   // the sum of their weights
};

// The final distribution in float64 that a token is drawn from, after masks, temperature, top-k and
// top-p in that order (top-p over what is left, renormalised; ties to the lower id; at least one
// token): candidates of non-zero probability, most likely first, ties by id; valid until the next
// use of the workspace. Less likely than the first by more than e^708 counts as zero. `banned` ids
// are removed first (those outside the vocabulary remove nothing), as are logits of -infinity.
// InvalidArgument: everything removed; a logit that is NaN or infinite; a temperature or top_k
// below 0; a top_p outside 0 to 1; more logits than the workspace is for. Temperature 0: the argmax
// alone.
absl::StatusOr<std::span<const SamplingWorkspace::Candidate>> FinalDistribution(
    std::span<const float> logits, std::span<const int32_t> banned, const SamplerSettings& settings,
    SamplingWorkspace& workspace);

// The token at `position`: a pure function of its arguments. The first candidate whose cumulative
// probability exceeds the uniform number. Errors as above. One pass over the logits at temperature
// 0, a few otherwise; never sorts the vocabulary.
absl::StatusOr<int32_t> SampleToken(std::span<const float> logits, std::span<const int32_t> banned,
                                    const SamplerSettings& settings,
                                    const std::array<uint32_t, 2>& key, int64_t position,
                                    SamplingWorkspace& workspace);

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;  // natural logarithm, of the raw logits' softmax
};

// Log-probability of `token` and the `top_n` most likely (by value, then id), from float64
// log-softmax; `top` is set to at most the vocabulary's size. `token` must be in the vocabulary,
// and some logit above -infinity; the workspace for at least as many logits.
void Logprobs(std::span<const float> logits, int32_t token, int top_n, SamplingWorkspace& workspace,
              TokenLogprob* chosen, std::vector<TokenLogprob>* top);

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_SAMPLING_H_
