#include "runtime/experiment/verify/verify.h"

#include <algorithm>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace headway {
namespace {

// The first positions alone, which do not depend on what follows.
RowResult Beginning(const RowResult& result, int positions) {
  const auto end = result.positions.begin() +
                   std::min<size_t>(result.positions.size(), static_cast<size_t>(positions));
  return {.positions = {result.positions.begin(), end}};
}

}  // namespace

absl::Status Verify(const VerifyCase& request, const std::vector<std::unique_ptr<VerifyRow>>& rows,
                    const std::function<void(const RowOutcome&)>& report) {
  std::optional<RowResult> expected;
  absl::Status result;
  for (const std::unique_ptr<VerifyRow>& row : rows) {
    RowOutcome outcome = {.name = row->name()};
    const double start = Clock::Real().NowSeconds();
    const int limit = std::min(row->prompt_limit(), static_cast<int>(request.prompt.size()));
    VerifyCase asked = request;
    if (limit > 0) {
      asked.prompt.resize(limit);
      asked.sampling.max_tokens = 1;
    }
    absl::StatusOr<RowResult> actual = row->Run(asked);
    outcome.seconds = Clock::Real().NowSeconds() - start;
    outcome.status = actual.status();
    if (actual.ok()) {
      if (limit > 0) *actual = Beginning(*actual, limit);
      outcome.tokens = static_cast<int>(actual->tokens.size());
      outcome.positions = static_cast<int>(actual->positions.size());
      if (expected.has_value()) {
        outcome.difference = FirstDifference(limit > 0 ? Beginning(*expected, limit) : *expected,
                                             *actual, static_cast<int>(asked.prompt.size()));
      } else {
        expected = *std::move(actual);
      }
    }
    report(outcome);
    if (!outcome.equal() && result.ok()) {
      result = absl::FailedPreconditionError(absl::StrCat(
          "row \"", outcome.name, "\" ",
          outcome.status.ok() ? absl::StrCat("differs at ", outcome.difference->ToString())
                              : absl::StrCat("could not run: ", outcome.status.message())));
    }
    // Without a first row there is nothing to compare with.
    if (!expected.has_value()) return result;
  }
  return result;
}

}  // namespace headway
