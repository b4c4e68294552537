#include "runtime/router/cluster_view.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/kv_layer_view.h"
#include "runtime/base/status.h"

namespace headway {

ClusterView::ClusterView(std::vector<MemberSnapshot> members, std::span<const int> excluded)
    : members_(std::move(members)) {
  for (MemberSnapshot& member : members_) {
    if (std::find(excluded.begin(), excluded.end(), member.index) != excluded.end()) {
      member.usable = false;
    }
    if (!member.usable) continue;
    const v1::NodeLoad& load = member.load;
    const int waiting = load.waiting() + member.noted_requests;
    const int sequences = load.running() + load.reservations() + waiting;
    nodes_.push_back(
        {.index = member.index,
         .role = member.role,
         .free_blocks = load.free_blocks() - load.waiting_blocks() - member.noted_blocks,
         .total_blocks = member.info.kv_blocks(),
         .sequences = sequences,
         .free_places = member.info.max_running() - sequences,
         .waiting = waiting});
  }
}

ModelLimits ClusterView::SharedLimits() const {
  ModelLimits limits{.vocabulary = std::numeric_limits<int>::max(),
                     .max_positions = std::numeric_limits<int>::max()};
  for (const MemberSnapshot& member : members_) {
    if (!member.usable) continue;
    limits.vocabulary = std::min(limits.vocabulary, member.info.vocabulary());
    limits.max_positions = std::min<int64_t>(limits.max_positions, member.info.max_positions());
  }
  return limits;
}

absl::StatusOr<ClusterLimits> ClusterView::GenerateLimits() const {
  if (!ChooseDecode(nodes_, {})) return NoNode("generate");
  const bool pair =
      std::any_of(nodes_.begin(), nodes_.end(),
                  [](const PlacementNode& node) { return node.role == NodeRole::kDecode; }) &&
      ChoosePrefill(nodes_, {});
  ClusterLimits limits{.model = SharedLimits()};
  int64_t all_blocks = 0;
  for (const PlacementNode& node : nodes_) {
    const bool mixed = node.role == NodeRole::kMixed;
    if (mixed || (pair && node.role == NodeRole::kPrefill)) {
      limits.prompt_blocks = std::max(limits.prompt_blocks, node.total_blocks);
    }
    if (mixed || (pair && node.role == NodeRole::kDecode)) {
      all_blocks = std::max(all_blocks, node.total_blocks);
    }
  }
  limits.model.kv_positions = all_blocks * kernels::kKvBlockTokens;
  return limits;
}

absl::StatusOr<ModelLimits> ClusterView::ScoreLimits() const {
  if (!ChooseScore(nodes_, {})) return NoNode("score");
  ModelLimits limits = SharedLimits();
  for (const PlacementNode& node : nodes_) {
    if (node.role == NodeRole::kDecode) continue;
    limits.kv_positions =
        std::max(limits.kv_positions, node.total_blocks * kernels::kKvBlockTokens);
  }
  return limits;
}

absl::Status ClusterView::NoNode(const std::string& operation,
                                 const absl::Status& last_failure) const {
  if (absl::IsResourceExhausted(last_failure)) return last_failure;
  std::string text = absl::StrCat(operation, ": no node is available for it; of ", members_.size(),
                                  " nodes ", nodes_.size(), " can be used");
  const char* separator = " (";
  for (const MemberSnapshot& member : members_) {
    if (!member.usable) continue;
    absl::StrAppend(&text, separator, NodeRoleName(member.role), " ", member.address, ", ",
                    member.info.kv_blocks(), " KV blocks");
    separator = "; ";
  }
  if (!nodes_.empty()) absl::StrAppend(&text, ")");
  if (!last_failure.ok()) {
    absl::StrAppend(&text, "; the last failure: ", std::string(last_failure.message()));
  }
  return absl::UnavailableError(text);
}

absl::Status ClusterView::Describe(ServedModel& model) const {
  if (nodes_.empty()) return NoNode("describe the model");
  const ModelLimits limits = SharedLimits();
  const auto first = std::find_if(members_.begin(), members_.end(),
                                  [](const MemberSnapshot& member) { return member.usable; });
  model.name = first->info.model_name();
  model.numerics_id = first->info.numerics_id();
  model.vocabulary = limits.vocabulary;
  model.max_positions = static_cast<int>(limits.max_positions);
  model.kv_bytes_per_token = first->info.kv_bytes_per_token();
  return absl::OkStatus();
}

}  // namespace headway
