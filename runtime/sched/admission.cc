#include "runtime/sched/admission.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/cluster/error_details.h"

namespace headway {
namespace {

// When a full queue may have room again: about as long as a few sequences take.
constexpr double kRetrySeconds = 1;

absl::Status QueueFull(const std::string& text) {
  return WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat(text, ": retry in ", kRetrySeconds, " s")),
      kRetrySeconds);
}

}  // namespace

absl::Status DecideEnqueue(const AdmissionSnapshot& snapshot, const QueueLimits& limits, int blocks,
                           int64_t tokens) {
  if (blocks > snapshot.capacity_blocks) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the request needs ", blocks, " KV blocks of 16 tokens, the node has ",
                     snapshot.capacity_blocks, " in all: shorten the prompt or lower max_tokens"));
  }
  if (snapshot.waiting >= limits.max_waiting) {
    return QueueFull(absl::StrCat("the queue holds ", snapshot.waiting, " requests, its limit is ",
                                  limits.max_waiting));
  }
  if (snapshot.waiting_tokens + tokens > limits.max_waiting_tokens) {
    return QueueFull(absl::StrCat("the queue holds ", snapshot.waiting_tokens,
                                  " tokens, with this request's ", tokens,
                                  " more than its limit of ", limits.max_waiting_tokens));
  }
  return absl::OkStatus();
}

bool DecideStart(const AdmissionSnapshot& snapshot, const QueueLimits& limits, int blocks) {
  return snapshot.running < limits.max_running && blocks <= snapshot.free_blocks;
}

}  // namespace headway
