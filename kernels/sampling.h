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

// Key of choice `choice` of a request with `seed`; the counter of position p is {p low, p high, 0,
// 0}.
std::array<uint32_t, 2> SamplingKey(uint64_t seed, int choice);

// Uniform in [0, 1), 53 bits, from the generator's first two words.
double UniformAt(const std::array<uint32_t, 2>& key, int64_t position);

struct SamplerSettings {
  float temperature = 0;  // 0: the greatest logit, ties to the lower id
  int top_k = 0;          // 0: off
  float top_p = 1;        // 1: off
};

// Scratch of the sampler, sized for a vocabulary once; not thread-safe.
class SamplingWorkspace {
 public:
  explicit SamplingWorkspace(int vocabulary);
  struct Candidate {
    int32_t token;
    float logit;
    double probability;
  };
  std::vector<Candidate> candidates;  // capacity vocabulary
};

// The final distribution in float64 that a token is drawn from, after masks, temperature, top-k and
// top-p in that order (top-p over what is left, renormalised; ties to the lower id; at least one
// token): candidates of non-zero probability, most likely first, ties by id. `banned` ids are
// removed first; everything removed, or a logit that is NaN: InvalidArgument. Temperature 0: the
// argmax alone.
absl::StatusOr<std::span<const SamplingWorkspace::Candidate>> FinalDistribution(
    std::span<const float> logits, std::span<const int32_t> banned, const SamplerSettings& settings,
    SamplingWorkspace& workspace);

// The token at `position`: a pure function of its arguments. The first candidate whose cumulative
// probability exceeds the uniform number.
absl::StatusOr<int32_t> SampleToken(std::span<const float> logits, std::span<const int32_t> banned,
                                    const SamplerSettings& settings,
                                    const std::array<uint32_t, 2>& key, int64_t position,
                                    SamplingWorkspace& workspace);

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;  // natural logarithm, of the raw logits' softmax
};

// Log-probability of `token` and the `top_n` most likely (by value, then id), from float64
// log-softmax.
void Logprobs(std::span<const float> logits, int32_t token, int top_n, SamplingWorkspace& workspace,
              TokenLogprob* chosen, std::vector<TokenLogprob>* top);

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_SAMPLING_H_
