#ifndef HEADWAY_RUNTIME_MODEL_SHARD_PLAN_H_
#define HEADWAY_RUNTIME_MODEL_SHARD_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/model/model_config.h"

namespace headway {

// Which slice of a model one rank holds.
struct RankShard {
  int group_begin = 0, group_end = 0;  // reduction groups of the attention output
  int query_head_begin = 0, query_head_end = 0;
  std::vector<int> kv_heads;  // global ids, ascending; a head cut by a boundary is on both sides
  std::vector<int> kv_head_of_query;           // local index into kv_heads, per local query head
  int mlp_group_begin = 0, mlp_group_end = 0;  // reduction groups of MLP down; may be empty
  int mlp_begin = 0, mlp_end = 0;              // intermediate columns
  int vocabulary_begin = 0,
      vocabulary_end = 0;  // rows of the LM head; boundaries are multiples of 32

  int query_heads() const { return query_head_end - query_head_begin; }
};

// The whole cut. A pure function of (config, degree); the groups depend on the config alone.
struct ShardPlan {
  int degree = 1;
  std::vector<int> attention_group_heads;  // groups + 1 ascending offsets in query heads
  std::vector<int> mlp_group_columns;      // groups + 1 ascending offsets in intermediate columns
  std::vector<RankShard> ranks;

  int attention_groups() const { return static_cast<int>(attention_group_heads.size()) - 1; }
  int mlp_groups() const { return static_cast<int>(mlp_group_columns.size()) - 1; }
  std::vector<int> AttentionGroupBounds() const;  // degree + 1 offsets in groups
  std::vector<int> MlpGroupBounds() const;
  // KV heads that all ranks store, copies of heads that a boundary cuts through included.
  int stored_kv_heads() const;
};

// InvalidArgument naming degree and limit when degree is below 1 or above the number of attention
// groups.
absl::StatusOr<ShardPlan> MakeShardPlan(const ModelConfig& config, int degree);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_SHARD_PLAN_H_
