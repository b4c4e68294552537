#ifndef HEADWAY_RUNTIME_CLUSTER_NODE_ROLE_H_
#define HEADWAY_RUNTIME_CLUSTER_NODE_ROLE_H_

namespace headway {

// What a node does: computes prompts, continues sequences, or both.
enum class NodeRole { kPrefill, kDecode, kMixed };
const char* NodeRoleName(NodeRole role);  // "prefill", "decode", "mixed"

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_NODE_ROLE_H_
