#ifndef HEADWAY_RUNTIME_CLUSTER_LEASE_H_
#define HEADWAY_RUNTIME_CLUSTER_LEASE_H_

namespace headway {

// How long a reservation that nobody renews lives: what a router asks for where the request has no
// nearer deadline, and the most that a node grants.
inline constexpr int kLeaseSeconds = 30;
inline constexpr int kMaxLeaseSeconds = 120;

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_LEASE_H_
