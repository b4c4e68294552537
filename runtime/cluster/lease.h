#ifndef HEADWAY_RUNTIME_CLUSTER_LEASE_H_
#define HEADWAY_RUNTIME_CLUSTER_LEASE_H_

namespace headway {

// How long a reservation lives at most before its KV has arrived: what a router asks for where the
// request has no nearer deadline, and what a decode node grants.
inline constexpr int kMaxLeaseSeconds = 120;

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_LEASE_H_
