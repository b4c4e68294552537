#include "runtime/main/timeout_flag.h"

#include "absl/strings/str_cat.h"

namespace headway {

absl::Status AnswerTimeout::Explain(const absl::Status& status, const CallScope& scope) const {
  if (!status.ok() && scope.cancelled()) return absl::CancelledError("interrupted");
  if (!absl::IsDeadlineExceeded(status) || !absl::IsDeadlineExceeded(scope.Check())) return status;
  return absl::DeadlineExceededError(absl::StrCat("the answer was not whole after ", seconds,
                                                  " s, the limit that --timeout sets"));
}

void AddTimeoutFlag(Flags& flags, AnswerTimeout* timeout) {
  flags.Add("--timeout", &timeout->seconds, 1, 24 * 3600,
            {.value = "SECONDS", .help = "give up after this long, from when the request is sent"});
}

}  // namespace headway
