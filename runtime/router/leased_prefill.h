#ifndef HEADWAY_RUNTIME_ROUTER_LEASED_PREFILL_H_
#define HEADWAY_RUNTIME_ROUTER_LEASED_PREFILL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "runtime/cluster/call_scope.h"
#include "runtime/cluster/node_client.h"

namespace headway {

struct LeasedPrefill {
  absl::StatusOr<v1::PrefillReply> reply;
  // The error is not Prefill's: the decode node itself was asked and said, or did not say, so.
  bool decode_failed = false;
};

// Has `prefill` compute a prompt, and meanwhile renews its reservation on both nodes, each third of
// the lease, so that a lease need only be longer than a router may be silent, however long the
// prompt waits and takes. Waits for the answer.
//
// Errors are those of Prefill. Ends early, and ends the prefill, with the decode node's error when
// that does not know the reservation any more (CauseOf is kReservationLost) or is Unavailable.
LeasedPrefill PrefillUnderLease(CallScope& scope, NodeClient& prefill, NodeClient& decode,
                                const v1::PrefillRequest& request, uint32_t lease_ms);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_ROUTER_LEASED_PREFILL_H_
