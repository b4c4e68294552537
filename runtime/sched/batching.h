#ifndef HEADWAY_RUNTIME_SCHED_BATCHING_H_
#define HEADWAY_RUNTIME_SCHED_BATCHING_H_

#include <span>

namespace headway {

// What batching knows of a sequence that is ready to compute.
struct RunnableSequence {
  int remaining =
      0;  // positions whose tokens are known and not yet computed; 1 for a decoding sequence
  bool decoding = false;    // delivers a token every step: served before prompts
  bool all_logits = false;  // every computed row wants logits, not the last alone
};

struct BatchLimits {
  int max_rows = 0;        // tokens of one step
  int max_logit_rows = 0;  // rows of one step that want logits
  int max_chunk = 0;       // tokens of one prompt in one step
};

// Sets counts[i] to how many positions of sequence i the next step computes (0: waits). Decoding
// sequences first, so that a prompt delays their tokens by one step. Then half of the rows for the
// oldest prompt, which therefore ends however many others come; then prompts by what is left of
// them, the shortest first, so that a short one does not wait for a long one. Of the rows with
// logits one is kept for each prompt that may end. Pure. Since no op looks across rows, the choice
// moves time only, never bits. `counts` is as long as `sequences`, which are in order of age.
void DecideBatch(std::span<const RunnableSequence> sequences, const BatchLimits& limits,
                 std::span<int> counts);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_SCHED_BATCHING_H_
