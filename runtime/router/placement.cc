#include "runtime/router/placement.h"

#include <tuple>

namespace headway {
namespace {

// The first of those that `fits` in the order of `key`, lowest first; the index breaks ties.
template <typename Fits, typename Key>
std::optional<PlacementNode> Best(std::span<const PlacementNode> nodes, const Fits& fits,
                                  const Key& key) {
  std::optional<PlacementNode> best;
  for (const PlacementNode& node : nodes) {
    if (!fits(node)) continue;
    if (!best || std::tuple(key(node), node.index) < std::tuple(key(*best), best->index)) {
      best = node;
    }
  }
  return best;
}

// Lowest first.
using Order = std::tuple<bool, int64_t, int64_t>;

bool MustWait(const PlacementNode& node, int64_t blocks) {
  return node.free_places < 1 || node.free_blocks < blocks;
}

Order ShortestQueue(const PlacementNode& node) { return {true, node.waiting, -node.free_blocks}; }

Order LeastBusy(const PlacementNode& node, int64_t blocks) {
  if (MustWait(node, blocks)) return ShortestQueue(node);
  return {false, node.sequences, -node.free_blocks};
}

Order MostRoom(const PlacementNode& node, int64_t blocks) {
  if (MustWait(node, blocks)) return ShortestQueue(node);
  return {false, -node.free_blocks, node.sequences};
}

}  // namespace

std::optional<PlacementNode> ChooseDecode(std::span<const PlacementNode> nodes,
                                          const PlacementDemand& demand) {
  const bool has_prefill = ChoosePrefill(nodes, demand).has_value();
  return Best(
      nodes,
      [&](const PlacementNode& node) {
        if (node.total_blocks < demand.all_blocks) return false;
        return node.role == NodeRole::kMixed || (node.role == NodeRole::kDecode && has_prefill);
      },
      [&](const PlacementNode& node) { return MostRoom(node, demand.all_blocks); });
}

std::optional<PlacementNode> ChoosePrefill(std::span<const PlacementNode> nodes,
                                           const PlacementDemand& demand) {
  return Best(
      nodes,
      [&](const PlacementNode& node) {
        return node.role == NodeRole::kPrefill && node.total_blocks >= demand.prompt_blocks;
      },
      [&](const PlacementNode& node) { return LeastBusy(node, demand.prompt_blocks); });
}

std::optional<PlacementNode> ChooseScore(std::span<const PlacementNode> nodes,
                                         const PlacementDemand& demand) {
  return Best(
      nodes,
      [&](const PlacementNode& node) {
        return node.role != NodeRole::kDecode && node.total_blocks >= demand.prompt_blocks;
      },
      [&](const PlacementNode& node) { return LeastBusy(node, demand.prompt_blocks); });
}

}  // namespace headway
