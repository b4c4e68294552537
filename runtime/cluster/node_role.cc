#include "runtime/cluster/node_role.h"

namespace headway {

const char* NodeRoleName(NodeRole role) {
  switch (role) {
    case NodeRole::kPrefill:
      return "prefill";
    case NodeRole::kDecode:
      return "decode";
    case NodeRole::kMixed:
      return "mixed";
  }
  return "?";
}

}  // namespace headway
