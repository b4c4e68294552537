#include "runtime/text/chat/budget.h"

#include "absl/strings/str_cat.h"

namespace headway::text::chat {

absl::Status Budget::Step(size_t bytes) {
  Work(kBytesPerStep + bytes);
  if (!exhausted()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the chat template takes more than ", limits_.steps, " steps"));
}

absl::Status Budget::OutOfMemory() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("the chat template needs more than ", limits_.memory_bytes, " bytes of memory"));
}

absl::Status Charge::Grow(Budget* budget, size_t bytes) {
  if (bytes > budget->free_bytes()) return budget->OutOfMemory();
  budget_ = budget;
  bytes_ += bytes;
  budget->used_bytes_ += bytes;
  return absl::OkStatus();
}

}  // namespace headway::text::chat
