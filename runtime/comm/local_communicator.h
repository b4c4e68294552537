#ifndef HEADWAY_RUNTIME_COMM_LOCAL_COMMUNICATOR_H_
#define HEADWAY_RUNTIME_COMM_LOCAL_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"

namespace headway {

// A communicator among threads of one process, for tests and in-process groups. Element r is for
// rank r; all share state, so each may be used by its own thread. `timeout` as in the class comment
// of Communicator.
std::vector<std::unique_ptr<Communicator>> NewLocalCommunicators(
    int size, absl::Duration timeout = absl::Seconds(30));

}  // namespace headway

#endif  // HEADWAY_RUNTIME_COMM_LOCAL_COMMUNICATOR_H_
