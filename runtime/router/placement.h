#ifndef HEADWAY_RUNTIME_ROUTER_PLACEMENT_H_
#define HEADWAY_RUNTIME_ROUTER_PLACEMENT_H_

#include <cstdint>
#include <optional>
#include <span>

#include "runtime/cluster/node_role.h"

namespace headway {

// What placement knows of one usable node.
struct PlacementNode {
  int index = 0;  // names the node; only its order matters here
  NodeRole role = NodeRole::kMixed;
  // What nobody has or waits for. Negative: more is waited for than there is.
  int64_t free_blocks = 0;
  int64_t total_blocks = 0;
  int sequences = 0;    // running, reserved or waiting there
  int free_places = 0;  // for more sequences, as free_blocks
  int waiting = 0;      // sequences
  bool operator==(const PlacementNode&) const = default;
};

// What a request takes: blocks for its prompt, and for its longest output too.
struct PlacementDemand {
  int64_t prompt_blocks = 0;
  int64_t all_blocks = 0;
};

// All of these prefer nodes where the request can begin now: with enough free blocks and a place.
// It waits where there is none: where the fewest wait, ties to more free blocks, then to the lower
// index. Nodes that could never hold it do not count. Nothing when no node is left.

// Where a sequence lives while it decodes: the mixed or decode node with the most free blocks, ties
// to fewer sequences, then to the lower index. Decode nodes do not count where no prefill node
// could hold the prompt. Pure.
std::optional<PlacementNode> ChooseDecode(std::span<const PlacementNode> nodes,
                                          const PlacementDemand& demand);

// Who computes the prompt for a decode node: the prefill node with the fewest sequences, ties to
// more free blocks, then to the lower index. Pure.
std::optional<PlacementNode> ChoosePrefill(std::span<const PlacementNode> nodes,
                                           const PlacementDemand& demand);

// Who computes log-probabilities of a given text: as ChoosePrefill, mixed nodes included. Pure.
std::optional<PlacementNode> ChooseScore(std::span<const PlacementNode> nodes,
                                         const PlacementDemand& demand);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_ROUTER_PLACEMENT_H_
