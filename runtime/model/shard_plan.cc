#include "runtime/model/shard_plan.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/check.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/tensor/reduction_tree.h"

namespace headway {
namespace {

constexpr int kVocabularyUnit = 32;  // rows of a packed tile
constexpr int kBlock = 32;           // inputs of a quantised block

// Offsets of `groups` balanced runs of `units` units of `size` elements.
std::vector<int> BalancedRuns(int64_t units, int groups, int size) {
  std::vector<int> offsets(groups + 1);
  for (int i = 0; i <= groups; ++i) offsets[i] = static_cast<int>(units * i / groups * size);
  return offsets;
}

// At most 16 runs of whole query heads; of whole blocks too where the weight has blocks along the
// heads' dimensions.
std::vector<int> AttentionGroups(const ModelConfig& config) {
  const int unit =
      IsQuantised(config.output_weight) ? std::lcm(config.head_dim, kBlock) / config.head_dim : 1;
  const int units = config.query_heads / unit;
  return BalancedRuns(units, std::min(kMaxReductionGroups, units), unit);
}

std::vector<int> MlpGroups(const ModelConfig& config) {
  const int unit = IsQuantised(config.down_weight) ? kBlock : 1;
  const int units = config.intermediate / unit;
  return BalancedRuns(units, std::min(kMaxReductionGroups, units), unit);
}

// A quantised row-parallel weight is whole blocks long, so the groups cover all of it.
absl::Status CheckWholeBlocks(const char* what, int64_t inputs, DType dtype) {
  if (inputs % BlockElements(dtype) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("shard plan: the ", what, " weight is ",
                                                 ToAbsl(DTypeName(dtype)), " with ", inputs,
                                                 " inputs; they must be a multiple of ", kBlock));
}

void AssignKvHeads(const ModelConfig& config, RankShard& rank) {
  const int per_kv_head = config.query_heads / config.kv_heads;
  for (int head = rank.query_head_begin; head < rank.query_head_end; ++head) {
    const int kv_head = head / per_kv_head;
    if (rank.kv_heads.empty() || rank.kv_heads.back() != kv_head) rank.kv_heads.push_back(kv_head);
    rank.kv_head_of_query.push_back(static_cast<int>(rank.kv_heads.size()) - 1);
  }
}

double Bytes(DType dtype, double elements) {
  return elements / BlockElements(dtype) * BlockBytes(dtype);
}

// What a rank holds beside its MLP: projections of its heads (with copies of KV heads that a
// boundary cuts through) in every layer, and its rows of the LM head.
double BytesBesideMlp(const ModelConfig& config, const RankShard& rank) {
  const double heads = 2.0 * rank.query_heads() + 2.0 * static_cast<double>(rank.kv_heads.size());
  return config.layers * Bytes(config.output_weight, heads * config.head_dim * config.hidden) +
         Bytes(config.lm_head_weight,
               static_cast<double>(rank.vocabulary_end - rank.vocabulary_begin) * config.hidden);
}

// Runs of MLP groups that even out the bytes: each boundary is the group offset that brings the
// ranks before it nearest to their share of all bytes.
void AssignMlp(const ModelConfig& config, const std::vector<int>& columns,
               std::vector<RankShard>& ranks) {
  const double column_bytes =
      config.layers * Bytes(config.down_weight, 3.0 * static_cast<double>(config.hidden));
  std::vector<double> beside(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) beside[r] = BytesBesideMlp(config, ranks[r]);
  const double total =
      std::accumulate(beside.begin(), beside.end(), 0.0) + column_bytes * config.intermediate;
  const double share = total / static_cast<double>(ranks.size());

  const int groups = static_cast<int>(columns.size()) - 1;
  double before = 0;
  int begin = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    before += beside[r];
    int end = groups;
    if (r + 1 < ranks.size()) {
      const double wanted = (share * static_cast<double>(r + 1) - before) / column_bytes;
      end = begin;
      while (end < groups && columns[end] + columns[end + 1] <= 2 * wanted) ++end;
    }
    ranks[r].mlp_group_begin = begin;
    ranks[r].mlp_group_end = end;
    ranks[r].mlp_begin = columns[begin];
    ranks[r].mlp_end = columns[end];
    begin = end;
  }
}

template <class Member>
std::vector<int> Bounds(const std::vector<RankShard>& ranks, Member end) {
  std::vector<int> bounds = {0};
  for (const RankShard& rank : ranks) bounds.push_back(rank.*end);
  return bounds;
}

}  // namespace

std::vector<int> ShardPlan::AttentionGroupBounds() const {
  return Bounds(ranks, &RankShard::group_end);
}

std::vector<int> ShardPlan::MlpGroupBounds() const {
  return Bounds(ranks, &RankShard::mlp_group_end);
}

int ShardPlan::stored_kv_heads() const {
  int heads = 0;
  for (const RankShard& rank : ranks) heads += static_cast<int>(rank.kv_heads.size());
  return heads;
}

absl::StatusOr<ShardPlan> MakeShardPlan(const ModelConfig& config, int degree) {
  HEADWAY_CHECK(config.query_heads > 0 && config.kv_heads > 0 && config.head_dim > 0 &&
                config.query_heads % config.kv_heads == 0);
  HEADWAY_RETURN_IF_ERROR(CheckWholeBlocks(
      "attention output", int64_t{config.query_heads} * config.head_dim, config.output_weight));
  HEADWAY_RETURN_IF_ERROR(CheckWholeBlocks("MLP down", config.intermediate, config.down_weight));
  ShardPlan plan;
  plan.degree = degree;
  plan.attention_group_heads = AttentionGroups(config);
  plan.mlp_group_columns = MlpGroups(config);
  const int groups = plan.attention_groups();
  if (degree < 1 || degree > groups) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor-parallel degree ", degree, ": this checkpoint can be cut into 1 to ", groups,
        " ranks (reduction groups of its ", config.query_heads, " query heads)"));
  }
  const int64_t tiles = (config.vocabulary + kVocabularyUnit - 1) / kVocabularyUnit;
  for (int r = 0; r < degree; ++r) {
    RankShard rank;
    rank.group_begin = groups * r / degree;
    rank.group_end = groups * (r + 1) / degree;
    rank.query_head_begin = plan.attention_group_heads[rank.group_begin];
    rank.query_head_end = plan.attention_group_heads[rank.group_end];
    AssignKvHeads(config, rank);
    const auto row = [&](int64_t i) {
      return static_cast<int>(
          std::min<int64_t>(tiles * i / degree * kVocabularyUnit, config.vocabulary));
    };
    rank.vocabulary_begin = row(r);
    rank.vocabulary_end = row(r + 1);
    plan.ranks.push_back(std::move(rank));
  }
  AssignMlp(config, plan.mlp_group_columns, plan.ranks);
  return plan;
}

}  // namespace headway
