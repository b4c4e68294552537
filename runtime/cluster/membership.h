#ifndef HEADWAY_RUNTIME_CLUSTER_MEMBERSHIP_H_
#define HEADWAY_RUNTIME_CLUSTER_MEMBERSHIP_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "proto/headway/v1/node.pb.h"
#include "runtime/base/clock.h"
#include "runtime/cluster/call_scope.h"
#include "runtime/cluster/node_client.h"
#include "runtime/cluster/node_role.h"

namespace headway {

struct MembershipOptions {
  double poll_seconds = 0.5;  // between two looks at a node
  double call_seconds = 5;    // how long a node may take to answer one
  // How long a node that was UNAVAILABLE gets no requests: one that drains still answers looks.
  double leave_out_seconds = 2;
  // How long a KV transfer that failed counts against the two nodes that it was between.
  double unreachable_seconds = 10;
  // What every node must have. Empty: what the first node of the list has that answers; it stays
  // until this object goes.
  std::string numerics_id;
  // What every numerics id must begin with: the checkpoint of whoever asks the nodes. Empty: any.
  std::string checkpoint_id;
};

// Where a node is, and what it is said to be.
struct NodeAddress {
  std::string address;           // HOST:PORT
  std::optional<NodeRole> role;  // unset: whatever it says itself
};

// One node as it was when last looked at.
struct MemberSnapshot {
  int index = 0;  // in the list of addresses
  std::string address;
  bool usable = false;
  NodeRole role = NodeRole::kMixed;  // this and what follows: meaningful for usable nodes
  v1::NodeInfo info;
  v1::NodeLoad load;
  // Handed out by NoteReserved since `load` was taken.
  int noted_requests = 0;
  int noted_blocks = 0;
};

// The nodes that a router sends requests to: a fixed list, each looked at again and again. A node
// is usable when it has said what it is, its numerics id is the cluster's, and it has not been
// UNAVAILABLE of late. A node whose numerics id or role is not what it should be is refused, with
// one log line that names both. Thread-safe.
class Membership {
 public:
  // `clock` outlives this object. Looks at nobody yet.
  Membership(const std::vector<NodeAddress>& addresses, const MembershipOptions& options,
             const Clock& clock);
  // Ends looks in flight; as Stop too.
  ~Membership();

  // Looks at every node once, all at the same time, and waits for their answers.
  void Poll();

  // Polls until every node is usable or `seconds` have passed; `wait` passes the time between two
  // rounds. FailedPrecondition naming a refused node and why, at once; DeadlineExceeded
  // naming each node that did not answer, and why.
  absl::Status WaitReady(double seconds, const std::function<void(double seconds)>& wait);

  // Polls from a thread of its own from now on. `on_change` hears, on that thread, whether
  // requests can be served, first at once and then whenever that changes.
  void Start(std::function<void(bool serving)> on_change);

  // Ends that thread: `on_change` is not called any more. May be called again, also without Start.
  void Stop();

  std::vector<MemberSnapshot> Snapshot() const;
  // Whether there is a mixed node, or both a prefill and a decode node.
  bool Serving() const;
  // What all usable nodes share; empty while none is known.
  std::string numerics_id() const;
  // Of the list, not of a snapshot; lives as long as this object.
  NodeClient& client(int index) { return *nodes_[index]->client; }

  // Leaves the node out for a while when `status` is UNAVAILABLE; else does nothing.
  void ReportFailure(int index, const absl::Status& status);
  // The KV of a prefill node did not get through to a decode node: `status` is what the prefill
  // node says of it. Either may be at fault; what others report tells which. Leaves out the decode
  // node once two prefill nodes have reported it within `unreachable_seconds`, or the only one that
  // is usable has; else the prefill node once two decode nodes were out of its reach in that time.
  // What a node had to do with before it was left out, for whatever reason, counts no more.
  void ReportUnreachable(int prefill, int decode, const absl::Status& status);
  // It did get through: earlier reports of this pair count no more.
  void ReportReached(int prefill, int decode);
  // The prefill nodes whose reports of a decode node count at this moment.
  std::vector<int> OutOfReachFor(int decode) const;
  // Counts a request that goes to a node, and the blocks that it takes there, until the next look
  // at the node, whose own count includes them then.
  void NoteReserved(int index, int blocks);

 private:
  struct Node {
    NodeAddress at;
    std::unique_ptr<NodeClient> client;
    bool answered = false;             // the first look has ended, well or not
    std::optional<v1::NodeInfo> info;  // unset: to be asked
    v1::NodeLoad load;
    int noted_requests = 0, noted_blocks = 0;
    int64_t left_out_until_nanos = 0;
    bool accepted = false;  // has said what it is and may serve
    bool refused = false;   // what it last said differs from what it should be
    absl::Status error = absl::UnavailableError("not asked yet");  // of the last look
    std::shared_ptr<CallScope> look;                               // in flight
  };

  // A KV transfer that failed.
  struct Unreachable {
    int prefill, decode;  // indices
    int64_t nanos;        // when
  };

  void StartRound();
  void OnInfo(Node& node, absl::StatusOr<v1::NodeInfo> info);
  void OnLoad(Node& node, absl::StatusOr<v1::NodeLoad> load);
  // These need the lock.
  void EndLook(Node& node);
  bool OfCheckpoint(const std::string& numerics_id) const;
  std::string WhyRefused(const Node& node) const;
  void Judge();
  void Drop(Node& node, const absl::Status& why);
  void ForgetPair(int prefill, int decode);
  bool Usable(const Node& node) const;
  int64_t OldestReportNanos() const;
  bool ServingLocked() const;

  const MembershipOptions options_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Node>> nodes_;  // the list is fixed; what is in it guarded by mutex_
  std::string numerics_id_;                   // guarded by mutex_; empty: not known yet
  std::string numerics_from_;                 // whose it is; guarded by mutex_
  std::vector<Unreachable> unreachable_;      // one a pair of usable nodes; guarded by mutex_
  int looks_in_flight_ = 0;                   // guarded by mutex_
  bool stopping_ = false;                     // no more looks; guarded by mutex_
  bool thread_stopping_ = false;              // guarded by mutex_
  std::thread thread_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_MEMBERSHIP_H_
