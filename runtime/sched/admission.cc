#include "runtime/sched/admission.h"

#include "absl/strings/str_cat.h"

namespace headway {

absl::Status DecideEnqueue(const AdmissionSnapshot& snapshot, const QueueLimits& limits, int blocks,
                           int64_t tokens) {
  if (blocks > snapshot.capacity_blocks) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the request needs ", blocks, " KV blocks of 16 tokens, the node has ",
                     snapshot.capacity_blocks, " in all: shorten the prompt or lower max_tokens"));
  }
  if (snapshot.waiting >= limits.max_waiting) {
    return absl::ResourceExhaustedError(absl::StrCat("the queue holds ", snapshot.waiting,
                                                     " requests, its limit is ", limits.max_waiting,
                                                     ": retry in 1 s"));
  }
  if (snapshot.waiting_tokens + tokens > limits.max_waiting_tokens) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the queue holds ", snapshot.waiting_tokens, " tokens, with this request's ", tokens,
        " more than its limit of ", limits.max_waiting_tokens, ": retry in 1 s"));
  }
  return absl::OkStatus();
}

bool DecideStart(const AdmissionSnapshot& snapshot, const QueueLimits& limits, int blocks) {
  return snapshot.running < limits.max_running && blocks <= snapshot.free_blocks;
}

}  // namespace headway
