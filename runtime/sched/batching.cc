#include "runtime/sched/batching.h"

#include <algorithm>
#include <utility>

namespace headway {
namespace {

// One step as it fills up.
class Step {
 public:
  Step(std::span<const RunnableSequence> sequences, const BatchLimits& limits,
       std::span<int> counts)
      : sequences_(sequences),
        limits_(limits),
        counts_(counts),
        rows_(limits.max_rows),
        logit_rows_(limits.max_logit_rows) {
    for (const RunnableSequence& sequence : sequences) {
      if (!sequence.decoding && !sequence.all_logits && sequence.remaining > 0) ++ends_;
    }
  }

  int rows() const { return rows_; }
  int left(size_t i) const { return sequences_[i].remaining - counts_[i]; }

  // Gives sequence i up to `most` positions more.
  void Give(size_t i, int most) {
    const RunnableSequence& sequence = sequences_[i];
    const int before = counts_[i];
    int count = std::min({sequence.remaining, before + std::min(most, rows_), limits_.max_chunk});
    int wanted = 0;
    if (sequence.all_logits) {
      // A row is kept for each prompt that may end in this step: its first token needs one.
      count = std::min(count, before + std::min(logit_rows_, std::max(logit_rows_ - ends_, 1)));
      wanted = count - before;
    } else if (count == sequence.remaining) {
      if (logit_rows_ == 0) {
        --count;
      } else {
        wanted = 1;
      }
    }
    if (count <= before) return;
    if (!sequence.decoding && !sequence.all_logits) ends_ -= wanted;
    counts_[i] = count;
    rows_ -= count - before;
    logit_rows_ -= wanted;
  }

 private:
  const std::span<const RunnableSequence> sequences_;
  const BatchLimits limits_;
  const std::span<int> counts_;
  int rows_, logit_rows_;  // left
  int ends_ = 0;           // prompts that may still want their last row's logits
};

}  // namespace

void DecideBatch(std::span<const RunnableSequence> sequences, const BatchLimits& limits,
                 std::span<int> counts) {
  std::fill(counts.begin(), counts.end(), 0);
  Step step(sequences, limits, counts);
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].decoding) step.Give(i, 1);
  }
  const auto is_prompt = [](const RunnableSequence& sequence) { return !sequence.decoding; };
  const auto oldest = std::find_if(sequences.begin(), sequences.end(), is_prompt);
  if (oldest == sequences.end()) return;
  step.Give(oldest - sequences.begin(), (step.rows() + 1) / 2);
  // Ascending by what is left, then by age. Kept without a list: a step allocates nothing.
  std::pair<int, size_t> last = {0, 0};
  while (step.rows() > 0) {
    std::pair<int, size_t> next = {0, 0};
    for (size_t i = 0; i < sequences.size(); ++i) {
      const std::pair<int, size_t> key = {step.left(i), i + 1};
      if (is_prompt(sequences[i]) && key.first > 0 && key > last &&
          (next.second == 0 || key < next)) {
        next = key;
      }
    }
    if (next.second == 0) return;
    step.Give(next.second - 1, next.first);
    last = next;
  }
}

}  // namespace headway
