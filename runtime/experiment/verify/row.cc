#include "runtime/experiment/verify/row.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace headway {

std::string Difference::ToString() const {
  switch (layer) {
    case kLogits:
      return absl::StrCat("position ", position, ", logits");
    case kToken:
      return absl::StrCat("position ", position, ", token");
    case kMissing:
      return absl::StrCat("position ", position, ", missing");
    default:
      return absl::StrCat("position ", position, ", layer ", layer);
  }
}

std::optional<Difference> FirstDifference(const RowResult& expected, const RowResult& actual,
                                          int prompt_tokens) {
  const int positions =
      static_cast<int>(std::max(expected.positions.size(), actual.positions.size()));
  const int tokens = static_cast<int>(std::max(expected.tokens.size(), actual.tokens.size()));
  for (int position = 0; position < std::max(positions, prompt_tokens + tokens); ++position) {
    const int output = position - prompt_tokens;
    if (output >= 0 && output < tokens) {
      if (output >= static_cast<int>(std::min(expected.tokens.size(), actual.tokens.size()))) {
        return Difference{position, Difference::kMissing};
      }
      if (expected.tokens[output] != actual.tokens[output])
        return Difference{position, Difference::kToken};
    }
    if (position >= positions) continue;
    if (position >=
        static_cast<int>(std::min(expected.positions.size(), actual.positions.size()))) {
      return Difference{position, Difference::kMissing};
    }
    const PositionTrace& a = expected.positions[position];
    const PositionTrace& b = actual.positions[position];
    if (a.position != position || b.position != position || a.layers.size() != b.layers.size()) {
      return Difference{position, Difference::kMissing};
    }
    for (size_t layer = 0; layer < a.layers.size(); ++layer) {
      if (a.layers[layer] != b.layers[layer]) return Difference{position, static_cast<int>(layer)};
    }
    if (a.logits != b.logits) return Difference{position, Difference::kLogits};
  }
  return std::nullopt;
}

}  // namespace headway
