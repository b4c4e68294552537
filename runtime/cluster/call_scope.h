#ifndef HEADWAY_RUNTIME_CLUSTER_CALL_SCOPE_H_
#define HEADWAY_RUNTIME_CLUSTER_CALL_SCOPE_H_

#include <chrono>
#include <mutex>
#include <vector>

#include "absl/status/status.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace headway {

// What all calls made for one piece of work share: a deadline, and a way to end them early.
// Thread-safe. Outlives the calls made in it.
class CallScope {
 public:
  // Of the wall clock, since that is what a gRPC deadline is given in.
  using TimePoint = std::chrono::system_clock::time_point;

  explicit CallScope(TimePoint deadline) : deadline_(deadline) {}
  // A part of a larger piece of work, which ends with it and may be cancelled alone. `whole`
  // outlives it.
  explicit CallScope(CallScope& whole);
  ~CallScope();
  // A scope that ends `seconds` from now.
  static CallScope After(double seconds) { return CallScope(DeadlineAfter(seconds)); }
  static TimePoint DeadlineAfter(double seconds);
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  TimePoint deadline() const { return deadline_; }

  // Ends the calls in flight with CANCELLED; calls made later fail at once. May be repeated.
  void Cancel();
  bool cancelled() const;

  // Cancelled or DeadlineExceeded where this scope is why something failed; else OK.
  absl::Status Check() const;

  // One call's membership of the scope: gives `context` the deadline, cancels it with the scope.
  class Call {
   public:
    // `context`: not started yet; outlives this object.
    Call(CallScope& scope, grpc::ClientContext& context);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CallScope& scope_;
    grpc::ClientContext& context_;
  };

 private:
  CallScope* const whole_ = nullptr;
  const TimePoint deadline_;
  mutable std::mutex mutex_;
  bool cancelled_ = false;                    // guarded by mutex_
  std::vector<grpc::ClientContext*> active_;  // guarded by mutex_
  std::vector<CallScope*> parts_;             // guarded by mutex_, which is taken before theirs
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_CALL_SCOPE_H_
