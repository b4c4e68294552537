#ifndef HEADWAY_RUNTIME_NODE_NODE_LOOP_H_
#define HEADWAY_RUNTIME_NODE_NODE_LOOP_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/clock.h"
#include "runtime/cluster/lease.h"
#include "runtime/engine/token_chooser.h"
#include "runtime/engine/trace_recorder.h"
#include "runtime/kv/block_pool.h"
#include "runtime/node/rank_worker.h"
#include "runtime/node/sequence.h"
#include "runtime/node/tasks.h"
#include "runtime/sched/admission.h"
#include "runtime/sched/batching.h"

namespace headway {

struct NodeOptions {
  NodeRole role = NodeRole::kMixed;
  QueueLimits queue;
  int max_chunk = 0;  // tokens of one prompt in one step; 0: as many as a step has rows
  // A reservation lives this long unless the request says less; also the upper limit.
  int64_t max_lease_ms = kMaxLeaseSeconds * int64_t{1000};
  // A node on which something has waited this long for a step to end is not healthy.
  double stuck_seconds = kDefaultStuckSeconds;
  // Identifies this start of the node: KV writes meant for an earlier one are refused.
  uint64_t epoch = 1;
};

// The leader's loop: snapshot -> decisions (runtime/sched) -> one command to all ranks -> deliver.
//
// The task functions are thread-safe and return at once; their results come through the sink or the
// callback, exactly once each, on the loop's thread. Once the loop has ended there is no such
// thread: the result, an error, then comes on the thread that calls the task function, before that
// returns. Whoever calls Stop without Start delivers what is left itself.
//
// A step of decoding sequences allocates nothing on any rank, from the decisions to the sampled
// token. What may allocate are the ends of it: alternatives of log-probabilities and traces, which
// leave with the token, and the sink, whose affair it is how a token travels on (a gRPC stream
// builds a message and hands it to the library).
class NodeLoop {
 public:
  // `engine` and `worker` are the leader's; all references outlive the loop. `rank_addresses`: of
  // every rank's KV transport.
  NodeLoop(const NodeOptions& options, RankEngine& engine, RankWorker& worker,
           std::vector<std::string> rank_addresses, const Clock& clock);
  // Stops: what is under way ends with Unavailable; the other ranks are told to leave.
  ~NodeLoop();

  // Runs the loop on a thread of its own until Stop or until the group breaks.
  void Start();
  void Stop();
  // One turn: inbox, deadlines, decisions, one command. False when there was nothing to do. For
  // tests and Start.
  bool RunOnce();

  // Each returns a handle for Cancel. InvalidArgument, ResourceExhausted, FailedPrecondition (wrong
  // role) come through the task's own sink or callback.
  uint64_t Generate(GenerateTask task);
  uint64_t Prefill(PrefillTask task);
  uint64_t Score(ScoreTask task);
  uint64_t Reserve(ReserveTask task);
  uint64_t Decode(DecodeTask task);
  // Ends a sequence with Cancelled within two steps; its blocks are free again then. No effect on
  // an ended one.
  void Cancel(uint64_t handle);
  void Renew(RenewTask task);
  // Gives back a reservation that nobody decodes. Epoch 0: of any.
  void Release(uint64_t reservation_id, uint64_t epoch);
  // A snapshot, as of the last decisions. Waits for nothing: not for the step under way.
  // Thread-safe.
  NodeLoad load() const;

  // OK while the node should get requests: a step has completed recently, or nothing waits for one.
  // Else Unavailable with the reason: the group broke, a step takes longer than stuck_seconds, the
  // node drains. Thread-safe.
  absl::Status health() const;
  // Refuses new work from now on, but for Decode of what was reserved before, and waits until
  // nothing is under way; false when that takes longer. Thread-safe.
  bool Drain(double seconds);
  // Says that the group is broken, where somebody else finds that out: a rank whose process ended
  // while the node was idle. Everything under way ends with Unavailable. Thread-safe.
  void Break(const absl::Status& why);
  // Called (on the loop's thread) when the group breaks.
  void OnFailure(std::function<void(const absl::Status&)> callback) {
    on_failure_ = std::move(callback);
  }

  const RankEngine& engine() const { return engine_; }
  const NodeOptions& options() const { return options_; }

 private:
  using SequencePtr = std::unique_ptr<Sequence>;
  struct SpanRef {
    uint64_t sequence;
    int count;
    int first_row, first_logit_row;
    BatchSpan::Logits logits;
  };

  // What counts as waiting, of actions that the loop has not looked at.
  struct Posted {
    int tasks = 0;
    int64_t blocks = 0;
  };
  // A sequence of this length, which nobody has judged yet.
  Posted TaskOf(int64_t positions) const;
  uint64_t Post(const Posted& what, std::function<void(uint64_t)> action);
  void Wait();
  bool DrainInbox();
  bool ExecuteCommand();
  // Whether the next turn has something to do, without any new task.
  bool HasWork() const;
  void PublishLoad();
  void EndTurn(bool stepped);
  absl::Status broken() const;
  // These need the lock.
  int64_t StalledNanos() const;
  bool IdleLocked() const;
  absl::Status Enqueue(SequencePtr sequence);
  absl::Status CheckSequence(const std::vector<int32_t>& prompt,
                             const SamplingParams& sampling) const;
  absl::Status CheckTokens(const std::vector<int32_t>& tokens, int more) const;
  bool InVocabulary(int32_t token) const;
  absl::Status OutsideVocabulary(const std::string& name, int32_t token) const;
  AdmissionSnapshot Snapshot() const;
  void ExpireLeases();
  int64_t LeaseMillis(int64_t asked) const;
  void StartWaiting();
  void Begin(Sequence& sequence);
  void BeginPush(Sequence& sequence);
  void GrantReservation(Sequence& sequence);
  void AnswerGrants();
  void Rename(uint64_t from, uint64_t to);
  void TakeUp(uint64_t handle, DecodeTask task);
  void AddSpans(RankCommand& command);
  void AddTable(Sequence& sequence, RankCommand& command);
  void AddPolls(RankCommand& command);
  void Deliver();
  void DeliverRows(Sequence& sequence, const SpanRef& span);
  void DeliverToken(Sequence& sequence, int logit_row);
  absl::Status DeliverScores(Sequence& sequence, const SpanRef& span);
  void HandleReports();
  void HandleArrival(Sequence& sequence, std::span<const ReceiveReport> ranks);
  void HandleDeparture(Sequence& sequence, std::span<const SendReport> ranks);
  void End(uint64_t id, const absl::Status& status);
  void Fail(const absl::Status& status);

  const NodeOptions options_;
  RankEngine& engine_;
  RankWorker& worker_;
  const std::vector<std::string> rank_addresses_;
  const Clock& clock_;

  BlockPool pool_;
  TokenChooser chooser_;
  TraceRecorder recorder_;
  std::unordered_map<uint64_t, SequencePtr> sequences_;
  std::deque<uint64_t> waiting_;
  std::vector<uint64_t> running_;                          // in order of start
  std::unordered_map<uint64_t, uint64_t> by_reservation_;  // reservation id -> sequence
  std::vector<int> free_slots_;                            // of block tables on the ranks
  RankCommand command_;   // the next one; transfers are added as they come up
  RankCommand executed_;  // the last one
  std::vector<uint64_t>
      granted_;  // reservations that the ranks know once the next command has been executed
  std::vector<SpanRef> spans_;  // of the step under way
  // What a step is decided from. Members, so that their memory is taken once.
  std::vector<Sequence*> ready_;
  std::vector<RunnableSequence> runnable_;
  std::vector<int> counts_;
  NodeLoad counters_;  // what is counted since the start; the rest unset
  Posted drained_;     // taken off the inbox and not in load_ yet
  bool tracing_ = false;

  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<std::function<void()>> inbox_;  // guarded by mutex_
  Posted posted_;                             // guarded by mutex_: not in load_ yet
  NodeLoad load_;                             // guarded by mutex_
  bool busy_ = false;           // guarded by mutex_: something waits for a step or turn
  int64_t progress_nanos_ = 0;  // guarded by mutex_: when a step ended, or busy_ began
  bool draining_ = false;       // guarded by mutex_
  bool stop_ = false;           // guarded by mutex_
  absl::Status broken_;         // guarded by mutex_
  bool ended_ = false;          // guarded by mutex_: nobody drains the inbox any more
  uint64_t next_id_ = 1;        // guarded by mutex_
  std::function<void(const absl::Status&)> on_failure_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_NODE_NODE_LOOP_H_
