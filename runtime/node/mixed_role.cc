// Sequences that stay: a prompt is computed and decoded here, or only scored.
#include <utility>

#include "runtime/base/status.h"
#include "runtime/node/node_loop.h"
#include "runtime/request/validate.h"

namespace headway {

uint64_t NodeLoop::Generate(GenerateTask task) {
  const Posted what = TaskOf(static_cast<int64_t>(task.prompt.size()) + task.sampling.max_tokens);
  return Post(what, [this, task = std::move(task)](uint64_t id) mutable {
    auto admit = [&]() -> absl::Status {
      if (options_.role != NodeRole::kMixed) {
        return absl::FailedPreconditionError(absl::StrCat("Generate needs a mixed node; this is a ",
                                                          NodeRoleName(options_.role), " node"));
      }
      HEADWAY_RETURN_IF_ERROR(CheckSequence(task.prompt, task.sampling));
      auto sequence = std::make_unique<Sequence>();
      sequence->id = id;
      sequence->kind = Sequence::Kind::kGenerate;
      sequence->request_id = std::move(task.request_id);
      sequence->prompt_tokens = static_cast<int>(task.prompt.size());
      sequence->tokens = std::move(task.prompt);
      sequence->tokens.reserve(sequence->prompt_tokens + task.sampling.max_tokens);
      sequence->sampling = std::move(task.sampling);
      sequence->trace = task.trace;
      sequence->sink = task.sink;
      return Enqueue(std::move(sequence));
    };
    if (absl::Status status = admit(); !status.ok()) task.sink->OnDone(status);
  });
}

uint64_t NodeLoop::Score(ScoreTask task) {
  const Posted what = TaskOf(static_cast<int64_t>(task.ids.size()));
  return Post(what, [this, task = std::move(task)](uint64_t id) mutable {
    auto admit = [&]() -> absl::Status {
      if (options_.role == NodeRole::kDecode) {
        return absl::FailedPreconditionError(
            "scoring needs a prefill or mixed node; this is a decode node");
      }
      HEADWAY_RETURN_IF_ERROR(CheckTokens(task.ids, 0));
      if (task.top < 0 || task.top > kMaxLogprobs) {
        return absl::InvalidArgumentError(
            absl::StrCat("top is ", task.top, "; it must be from 0 to ", kMaxLogprobs));
      }
      auto sequence = std::make_unique<Sequence>();
      sequence->id = id;
      sequence->kind = Sequence::Kind::kScore;
      sequence->request_id = std::move(task.request_id);
      sequence->prompt_tokens = static_cast<int>(task.ids.size());
      sequence->tokens = std::move(task.ids);
      sequence->trace = task.trace;
      sequence->score_top = task.top;
      sequence->score_done = task.done;
      return Enqueue(std::move(sequence));
    };
    if (absl::Status status = admit(); !status.ok()) task.done(status);
  });
}

void NodeLoop::Begin(Sequence& sequence) {
  switch (sequence.kind) {
    case Sequence::Kind::kGenerate:
    case Sequence::Kind::kScore:
      sequence.state = Sequence::State::kComputing;
      return;
    case Sequence::Kind::kPrefill:
      BeginPush(sequence);
      return;
    case Sequence::Kind::kDecode:
      GrantReservation(sequence);
      return;
  }
}

}  // namespace headway
