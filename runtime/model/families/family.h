#ifndef HEADWAY_RUNTIME_MODEL_FAMILIES_FAMILY_H_
#define HEADWAY_RUNTIME_MODEL_FAMILIES_FAMILY_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/checkpoint.h"

namespace headway {

// Where a checkpoint keeps the numbers of a ModelConfig. An empty key: this form does not say.
struct ConfigKeys {
  std::string_view layers, hidden, intermediate;
  std::string_view query_heads;
  std::string_view kv_heads;        // absent: as many as query heads
  std::string_view head_dim;        // absent: hidden / query heads
  std::string_view value_head_dim;  // must equal head_dim
  std::string_view vocabulary;      // absent: the rows of the embedding
  std::string_view max_positions;
  std::string_view rms_epsilon;
  std::string_view tied_embedding;  // absent: tied_by_default; no such key: tied where lm_head
                                    // is missing
  std::string_view attention_bias;  // q, k, v and output; no such key: where the tensors are
  std::string_view mlp_bias;        // likewise
  std::string_view sliding_window, use_sliding_window;
  std::span<const std::string_view> end_tokens;  // each an id or a list of ids
};

// Names of the tensors. Those of a layer stand between `layer_prefix` + its number + "." and
// ".weight" or ".bias".
struct TensorNames {
  std::string_view embedding, final_norm, lm_head;  // without ".weight"
  std::string_view layer_prefix;
  std::string_view attention_norm, q, k, v, attention_output;
  std::string_view mlp_norm, gate, up, down;

  // E.g. Layer(3, q, ".weight") is "blk.3.attn_q.weight".
  std::string Layer(int layer, std::string_view tensor, std::string_view suffix) const;
};

// A setting that the family's forward pass knows in one value only. A key that is absent is fine.
struct FixedSetting {
  enum class Must { kBeAbsent, kBeZero, kBeTrue, kBeText };
  std::string_view key;
  Must must;
  std::string_view text;  // for kBeText
  std::string_view why;   // "... cannot be served"
};

// How one kind of checkpoint stores a family.
struct FamilyForm {
  ConfigKeys keys;
  TensorNames tensors;
  std::span<const FixedSetting> fixed;
  bool tied_by_default = false;
  bool rope_rows_interleaved = false;  // of Q and K: neighbour pairs, else half a head apart
};

// A model family is data: what its checkpoints are called, and where they keep what.
struct Family {
  std::string_view name;
  std::string_view gguf_architecture;   // general.architecture
  std::string_view hugging_face_class;  // in `architectures`
  std::string_view hugging_face_type;   // model_type, where `architectures` is missing
  FamilyForm gguf, hugging_face;

  const FamilyForm& form(Checkpoint::Kind kind) const {
    return kind == Checkpoint::Kind::kGguf ? gguf : hugging_face;
  }
};

// Every family that can be served.
std::span<const Family* const> Families();

// The family of a checkpoint. InvalidArgument names the architecture and those that are known;
// NotFound names the missing key.
absl::StatusOr<const Family*> FindFamily(const Checkpoint& checkpoint);

// By Family::name, which a ModelConfig carries. NotFound names it.
absl::StatusOr<const Family*> FindFamily(std::string_view name);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_FAMILIES_FAMILY_H_
