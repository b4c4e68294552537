#include "runtime/experiment/verify/work.h"

#include <numeric>

#include "runtime/base/status.h"
#include "runtime/comm/local_communicator.h"
#include "runtime/kv/block_pool.h"

namespace headway {

absl::StatusOr<WorkTable> CountWork(const Checkpoint& checkpoint, EngineOptions options,
                                    const std::vector<int32_t>& tokens) {
  const int count = static_cast<int>(tokens.size());
  if (count < 6)
    return absl::InvalidArgumentError(absl::StrCat("counting work needs 6 tokens, not ", count));
  options.limits.max_rows = count;
  options.limits.max_logit_rows = 1;
  options.kv_blocks = BlocksFor(count);
  std::vector<std::unique_ptr<Communicator>> comm = NewLocalCommunicators(1);
  HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<RankEngine> engine,
                           RankEngine::Create(checkpoint, options, *comm[0]));
  std::vector<int32_t> table(options.kv_blocks);
  std::iota(table.begin(), table.end(), 0);

  // Computes tokens [begin, end) on top of a cache that holds those before.
  auto run = [&](int begin, int end) -> absl::StatusOr<StepWork> {
    const int64_t projections = engine->kv_projections();
    const int64_t keys = engine->attended_keys();
    const BatchSpan span = {.tokens = std::span(tokens).subspan(begin, end - begin),
                            .first_position = begin,
                            .block_table = table};
    HEADWAY_RETURN_IF_ERROR(engine->Run({&span, 1}, nullptr));
    return StepWork{end - 1, engine->kv_projections() - projections,
                    engine->attended_keys() - keys};
  };

  WorkTable result;
  HEADWAY_ASSIGN_OR_RETURN(StepWork five, run(0, 5));
  HEADWAY_ASSIGN_OR_RETURN(StepWork sixth, run(5, 6));
  HEADWAY_ASSIGN_OR_RETURN(StepWork five_again, run(0, 5));
  HEADWAY_ASSIGN_OR_RETURN(StepWork six, run(0, 6));
  result.five_cached = five.projections;
  result.sixth_cached = sixth.projections;
  result.five_uncached = five_again.projections;
  result.sixth_uncached = six.projections;

  int filled = 0;
  for (int position = 5; position < count; position *= 2) {
    HEADWAY_RETURN_IF_ERROR(run(filled, position).status());
    HEADWAY_ASSIGN_OR_RETURN(StepWork cached, run(position, position + 1));
    filled = position + 1;
    HEADWAY_ASSIGN_OR_RETURN(StepWork uncached, run(0, position + 1));
    result.cached.push_back(cached);
    result.uncached.push_back(uncached);
  }
  return result;
}

}  // namespace headway
