#include "runtime/model/batch_rows.h"

#include "runtime/base/status.h"

namespace headway {
namespace {

absl::Status CheckTokens(const BatchSpan& span, int vocabulary) {
  for (size_t i = 0; i < span.tokens.size(); ++i) {
    if (span.tokens[i] < 0 || span.tokens[i] >= vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat("token ", span.tokens[i], " at position ",
                                                     span.first_position + i,
                                                     " is outside the vocabulary of ", vocabulary));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPositions(const BatchSpan& span, int max_positions) {
  const int64_t end = span.first_position + static_cast<int64_t>(span.tokens.size());
  if (span.first_position >= 0 && end <= max_positions) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("positions ", span.first_position, " to ", end - 1,
                                                 " are outside 0 to ", max_positions - 1));
}

absl::Status CheckBlocks(const BatchSpan& span, int64_t num_blocks) {
  constexpr int64_t kTokens = kernels::kKvBlockTokens;
  const int64_t end = span.first_position + static_cast<int64_t>(span.tokens.size());
  const int64_t blocks = (end + kTokens - 1) / kTokens;
  if (static_cast<int64_t>(span.block_table.size()) < blocks) {
    return absl::InvalidArgumentError(absl::StrCat("its block table has ", span.block_table.size(),
                                                   " blocks; positions up to ", end - 1, " need ",
                                                   blocks));
  }
  for (int64_t i = 0; i < blocks; ++i) {
    if (span.block_table[i] < 0 || span.block_table[i] >= num_blocks) {
      return absl::InvalidArgumentError(absl::StrCat("block ", span.block_table[i],
                                                     " of its table at ", i, " is outside 0 to ",
                                                     num_blocks - 1));
    }
  }
  return absl::OkStatus();
}

int WantedRows(const BatchSpan& span) {
  switch (span.logits) {
    case BatchSpan::Logits::kNone:
      return 0;
    case BatchSpan::Logits::kLast:
      return 1;
    case BatchSpan::Logits::kAll:
      return static_cast<int>(span.tokens.size());
  }
  return 0;
}

}  // namespace

BatchRows::BatchRows(const ForwardLimits& limits, int vocabulary)
    : limits_(limits), vocabulary_(vocabulary) {
  tokens_.reserve(limits.max_rows);
  spans_.reserve(limits.max_rows);
  wanted_.reserve(limits.max_rows);
}

absl::Status BatchRows::Check(std::span<const BatchSpan> batch, int64_t num_blocks) const {
  int64_t rows = 0, wanted = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const BatchSpan& span = batch[i];
    const auto check = [&] {
      if (span.tokens.empty()) return absl::InvalidArgumentError("it has no tokens");
      // Before anything walks the tokens: the count bounds that walk.
      rows += static_cast<int64_t>(span.tokens.size());
      if (rows > limits_.max_rows) {
        return absl::InvalidArgumentError(
            absl::StrCat("the batch has ", rows, " rows or more; at most ", limits_.max_rows));
      }
      wanted += WantedRows(span);
      if (wanted > limits_.max_logit_rows) {
        return absl::InvalidArgumentError(absl::StrCat(
            "logits of ", wanted, " rows or more are wanted; at most ", limits_.max_logit_rows));
      }
      HEADWAY_RETURN_IF_ERROR(CheckPositions(span, limits_.max_positions));
      HEADWAY_RETURN_IF_ERROR(CheckTokens(span, vocabulary_));
      return CheckBlocks(span, num_blocks);
    };
    if (absl::Status status = check(); !status.ok()) {
      return Annotate(status, absl::StrCat("forward pass, span ", i, " of ", batch.size()));
    }
  }
  if (rows == 0) return absl::InvalidArgumentError("forward pass: the batch is empty");
  return absl::OkStatus();
}

absl::Status BatchRows::Assign(std::span<const BatchSpan> batch, int64_t num_blocks) {
  HEADWAY_RETURN_IF_ERROR(Check(batch, num_blocks));
  tokens_.clear();
  spans_.clear();
  wanted_.clear();
  for (const BatchSpan& span : batch) {
    const int first_row = rows();
    tokens_.insert(tokens_.end(), span.tokens.begin(), span.tokens.end());
    spans_.push_back({.first_row = first_row,
                      .rows = static_cast<int>(span.tokens.size()),
                      .first_position = span.first_position,
                      .block_table = span.block_table.data()});
    for (int row = rows() - WantedRows(span); row < rows(); ++row) wanted_.push_back(row);
  }
  return absl::OkStatus();
}

}  // namespace headway
