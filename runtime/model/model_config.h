#ifndef HEADWAY_RUNTIME_MODEL_MODEL_CONFIG_H_
#define HEADWAY_RUNTIME_MODEL_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/checkpoint.h"

namespace headway {

// Rotary position embedding: the published kinds that are a function of the position alone.
struct RopeConfig {
  enum class Kind { kPlain, kLinear, kLlama3, kYarn };
  Kind kind = Kind::kPlain;
  double theta = 10000;
  double factor = 1;
  // llama3
  double low_freq_factor = 1, high_freq_factor = 4;
  // llama3 and yarn
  double original_max_positions = 0;
  // yarn
  double beta_fast = 32, beta_slow = 1;
  double attention_factor = 1;  // multiplies cos and sin; already resolved from mscale and the like
  bool truncate = true;
  // GGUF: frequencies are divided by these where the file has rope_freqs.weight; empty: none.
  // [head_dim / 2]
  std::vector<float> frequency_divisors;
};

// What the forward pass needs to know of a checkpoint; a family fills it in.
struct ModelConfig {
  std::string family;  // "llama"
  int layers = 0;
  int hidden = 0;
  int query_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int intermediate = 0;
  int vocabulary = 0;     // rows of the embedding
  int max_positions = 0;  // the checkpoint's own limit
  double rms_epsilon = 1e-5;
  RopeConfig rope;
  bool tied_embedding = false;
  bool attention_bias = false;  // q, k, v
  bool attention_output_bias = false;
  bool mlp_bias = false;
  // Rows of Q and K are stored for neighbour pairs (GGUF) or for pairs half a head apart (Hugging
  // Face).
  bool rope_rows_interleaved = false;
  DType output_weight =
      DType::kF32;  // dtype of the attention output and MLP down weights decide reduction groups
  DType down_weight = DType::kF32;
  DType lm_head_weight = DType::kF32;  // of the embedding where they are tied
  std::vector<int32_t> eos_tokens;     // from the checkpoint's metadata; may be empty
};

// InvalidArgument naming key and value for what cannot be served (unknown architecture or rope
// scaling; dynamic rope scaling, because it would make logits depend on later tokens); NotFound
// naming a missing key.
absl::StatusOr<ModelConfig> ReadModelConfig(const Checkpoint& checkpoint);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_MODEL_CONFIG_H_
