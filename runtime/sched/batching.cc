#include "runtime/sched/batching.h"

#include <algorithm>

namespace headway {

void DecideBatch(std::span<const RunnableSequence> sequences, const BatchLimits& limits,
                 std::span<int> counts) {
  std::fill(counts.begin(), counts.end(), 0);
  int rows = limits.max_rows;
  int logit_rows = limits.max_logit_rows;
  auto take = [&](size_t i) {
    const RunnableSequence& sequence = sequences[i];
    int count = std::min({sequence.remaining, rows, limits.max_chunk});
    if (sequence.all_logits) count = std::min(count, logit_rows);
    if (count <= 0) return;
    const bool reaches_end = count == sequence.remaining;
    const int wanted = sequence.all_logits ? count : reaches_end ? 1 : 0;
    if (wanted > logit_rows) return;
    counts[i] = count;
    rows -= count;
    logit_rows -= wanted;
  };
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].decoding) take(i);
  }
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (!sequences[i].decoding) take(i);
  }
}

}  // namespace headway
