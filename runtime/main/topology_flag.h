#ifndef HEADWAY_RUNTIME_MAIN_TOPOLOGY_FLAG_H_
#define HEADWAY_RUNTIME_MAIN_TOPOLOGY_FLAG_H_

#include "runtime/cluster/topology.h"
#include "runtime/main/flags.h"

namespace headway {

// Adds --topology; one mixed node of one rank unless given.
void AddTopologyFlag(Flags& flags, Topology* topology);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_TOPOLOGY_FLAG_H_
