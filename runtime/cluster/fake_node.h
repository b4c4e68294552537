#ifndef HEADWAY_RUNTIME_CLUSTER_FAKE_NODE_H_
#define HEADWAY_RUNTIME_CLUSTER_FAKE_NODE_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/headway/v1/node.pb.h"

namespace grpc {
class Server;
}  // namespace grpc

namespace headway {

// For tests: a node on a port of this machine that plays a script and writes down what it was
// asked. Thread-safe.
class FakeNode {
 public:
  struct Script {
    // What every sequence outputs: token i has index i. Prefill gives the first, Decode the others,
    // Generate all.
    std::vector<int32_t> tokens;
    v1::TokenFinish finish = v1::TOKEN_FINISH_LENGTH;  // with the last token
    int first_index = 0;                               // another one is a fault
    int tokens_per_batch = 1;
    int trace_layers = 0;  // of each token's trace: makes tokens large
    // Streams wait after this many of their own tokens until they are cancelled or LetGo; -1:
    // never. Prefill waits likewise when hold_prefill.
    int hold_after = -1;
    bool hold_prefill = false;
    bool lose_reserve = false;  // grants, but never answers
    bool lose_load = false;     // never tells its load
    // What Prefill leaves out of its answer.
    bool without_first = false, without_manifest = false;
    int wrong_reservation = 0;  // added to the id that is granted
    int scores_missing = 0;     // entries left out of the answer of ScoreTokens
    // What the calls answer in place of their result; Generate and Decode after their tokens (the
    // last of which then is not marked as such).
    absl::Status info, load, reserve, renew, prefill, stream, score;
    // How many calls answer the above, before the others go well; -1: all.
    int prefill_failures = -1, renew_failures = -1;
    bool end_early = false;  // streams end well without a last token
  };

  // `info`: role, and where not set: degree 1, numerics id "n-1", model "fake", vocabulary 1000,
  // max_positions 256, 64 blocks, max_running 32. Port 0: any.
  explicit FakeNode(v1::NodeInfo info, int port = 0);
  explicit FakeNode(v1::NodeRole role);
  ~FakeNode();

  std::string address() const;
  int port() const { return port_; }
  v1::NodeInfo info() const { return info_; }

  void SetScript(Script script);
  void SetLoad(v1::NodeLoad load);
  // Streams and prefills that wait go on.
  void LetGo();
  // Ends every connection at once; whoever calls gets UNAVAILABLE from now on.
  void Stop();

  // The names of the calls made, but for GetInfo and GetLoad, in order; "cancelled" where a stream
  // or a prefill was ended by the caller.
  std::vector<std::string> events() const;
  // Waits until `name` is among the events this many times.
  void WaitFor(const std::string& name, int times = 1) const;
  // Tokens that streams have handed to gRPC.
  int tokens_sent() const;
  // Reservations neither released nor taken up.
  int open_reservations() const;

  // The last requests.
  v1::ReserveRequest last_reserve() const;
  v1::PrefillRequest last_prefill() const;
  v1::RenewRequest last_renew() const;
  v1::ReleaseRequest last_release() const;
  v1::DecodeRequest last_decode() const;
  v1::NodeGenerateRequest last_generate() const;
  v1::ScoreTokensRequest last_score() const;

 private:
  class Service;
  class Stream;
  class Held;

  void Note(const std::string& event);
  static absl::Status Next(const absl::Status& failure, int& left);

  v1::NodeInfo info_;
  int port_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Script script_;                     // this and all below: guarded by mutex_
  std::optional<v1::NodeLoad> load_;  // unset: idle
  std::vector<std::string> events_;
  std::set<uint64_t> reservations_;
  int tokens_sent_ = 0;
  std::set<Held*> held_;
  v1::ReserveRequest last_reserve_;
  v1::PrefillRequest last_prefill_;
  v1::RenewRequest last_renew_;
  v1::ReleaseRequest last_release_;
  v1::DecodeRequest last_decode_;
  v1::NodeGenerateRequest last_generate_;
  v1::ScoreTokensRequest last_score_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_FAKE_NODE_H_
