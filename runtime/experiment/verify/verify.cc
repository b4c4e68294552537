#include "runtime/experiment/verify/verify.h"

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace headway {

absl::Status Verify(const VerifyCase& request, const std::vector<std::unique_ptr<VerifyRow>>& rows,
                    const std::function<void(const RowOutcome&)>& report) {
  std::optional<RowResult> expected;
  absl::Status result;
  for (const std::unique_ptr<VerifyRow>& row : rows) {
    RowOutcome outcome = {.name = row->name()};
    const double start = Clock::Real().NowSeconds();
    absl::StatusOr<RowResult> actual = row->Run(request);
    outcome.seconds = Clock::Real().NowSeconds() - start;
    outcome.status = actual.status();
    if (actual.ok()) {
      outcome.tokens = static_cast<int>(actual->tokens.size());
      outcome.positions = static_cast<int>(actual->positions.size());
      if (expected.has_value()) {
        outcome.difference =
            FirstDifference(*expected, *actual, static_cast<int>(request.prompt.size()));
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
