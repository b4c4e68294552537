#include "runtime/cluster/call_scope.h"

#include <algorithm>

#include "grpcpp/client_context.h"

namespace headway {

CallScope::TimePoint CallScope::DeadlineAfter(double seconds) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<TimePoint::duration>(std::chrono::duration<double>(seconds));
}

CallScope::CallScope(CallScope& whole) : whole_(&whole), deadline_(whole.deadline_) {
  std::lock_guard lock(whole.mutex_);
  whole.parts_.push_back(this);
  cancelled_ = whole.cancelled_;
}

CallScope::~CallScope() {
  if (whole_ == nullptr) return;
  std::lock_guard lock(whole_->mutex_);
  std::erase(whole_->parts_, this);
}

void CallScope::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (CallScope* part : parts_) part->Cancel();
  for (grpc::ClientContext* context : active_) context->TryCancel();
}

bool CallScope::cancelled() const {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

absl::Status CallScope::Check() const {
  if (cancelled()) return absl::CancelledError("the caller left");
  if (std::chrono::system_clock::now() >= deadline_) {
    return absl::DeadlineExceededError("the deadline has passed");
  }
  return absl::OkStatus();
}

CallScope::Call::Call(CallScope& scope, grpc::ClientContext& context)
    : scope_(scope), context_(context) {
  context.set_deadline(scope.deadline_);
  std::lock_guard lock(scope.mutex_);
  scope.active_.push_back(&context);
  // A context that is cancelled before its call starts ends the call as it starts.
  if (scope.cancelled_) context.TryCancel();
}

CallScope::Call::~Call() {
  std::lock_guard lock(scope_.mutex_);
  scope_.active_.erase(std::find(scope_.active_.begin(), scope_.active_.end(), &context_));
}

}  // namespace headway
