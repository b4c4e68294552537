#ifndef HEADWAY_RUNTIME_EXPERIMENT_VERIFY_ROW_H_
#define HEADWAY_RUNTIME_EXPERIMENT_VERIFY_ROW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/request/sampling_params.h"
#include "runtime/request/token_sink.h"

namespace headway {

// What every row of `headway verify` computes.
struct VerifyCase {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
};

// What one row gave: the output tokens, and the digests of each computed position, ascending from
// 0.
struct RowResult {
  std::vector<int32_t> tokens;
  std::vector<PositionTrace> positions;
};

// One way to serve the case.
class VerifyRow {
 public:
  virtual ~VerifyRow() = default;
  virtual std::string name() const = 0;
  virtual absl::StatusOr<RowResult> Run(const VerifyCase& request) = 0;
  // Above 0: the row is too slow for the whole case, and is asked for so many tokens of the prompt
  // only, whose positions are then compared.
  virtual int prompt_limit() const { return 0; }
};

// The earliest place where two rows differ: by position, then by layer.
struct Difference {
  int position = 0;
  int layer = 0;  // the first that differs; kLogits, kToken or kMissing when no layer does
  static constexpr int kLogits = -1;
  static constexpr int kToken = -2;    // the output token chosen at this position
  static constexpr int kMissing = -3;  // only one of the rows has the position
  std::string ToString() const;
  bool operator==(const Difference&) const = default;
};

std::optional<Difference> FirstDifference(const RowResult& expected, const RowResult& actual,
                                          int prompt_tokens);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_EXPERIMENT_VERIFY_ROW_H_
