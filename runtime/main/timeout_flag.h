#ifndef HEADWAY_RUNTIME_MAIN_TIMEOUT_FLAG_H_
#define HEADWAY_RUNTIME_MAIN_TIMEOUT_FLAG_H_

#include "absl/status/status.h"
#include "runtime/cluster/call_scope.h"
#include "runtime/main/flags.h"

namespace headway {

// How long a client verb waits for one answer.
struct AnswerTimeout {
  int seconds = 3600;

  CallScope::TimePoint Deadline() const { return CallScope::DeadlineAfter(seconds); }
  // `status` of a call in `scope`, which has that deadline. Where this side ended the call, in
  // words that tell why: interrupted, or the limit.
  absl::Status Explain(const absl::Status& status, const CallScope& scope) const;
};

// Adds --timeout.
void AddTimeoutFlag(Flags& flags, AnswerTimeout* timeout);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_TIMEOUT_FLAG_H_
