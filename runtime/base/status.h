#ifndef HEADWAY_RUNTIME_BASE_STATUS_H_
#define HEADWAY_RUNTIME_BASE_STATUS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace headway {

// Puts `context` and ": " before the message, keeps the code. OK stays OK.
inline absl::Status Annotate(const absl::Status& status, const std::string& context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace headway

#define HEADWAY_CONCAT_INNER(a, b) a##b
#define HEADWAY_CONCAT(a, b) HEADWAY_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expr`, an absl::Status, is not OK.
#define HEADWAY_RETURN_IF_ERROR(expr)                                                         \
  do {                                                                                        \
    if (absl::Status headway_status_ = (expr); !headway_status_.ok()) return headway_status_; \
  } while (0)

// Assigns the value of an absl::StatusOr to `lhs` (which may declare it), or returns its status.
#define HEADWAY_ASSIGN_OR_RETURN(lhs, expr) \
  HEADWAY_ASSIGN_OR_RETURN_IMPL(HEADWAY_CONCAT(headway_or_, __LINE__), lhs, expr)
#define HEADWAY_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                                  \
  if (!tmp.ok()) return std::move(tmp).status();      \
  lhs = *std::move(tmp)

#endif  // HEADWAY_RUNTIME_BASE_STATUS_H_
