#include "runtime/engine/rank_engine.h"

#include <future>
#include <utility>

#include "runtime/base/status.h"

namespace headway {

absl::StatusOr<std::unique_ptr<RankEngine>> RankEngine::Create(
    const Checkpoint& checkpoint, const EngineOptions& options, Communicator& comm,
    std::function<void(int, int)> progress) {
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads of a rank must be at least 1, not ", options.threads));
  }
  auto engine = std::unique_ptr<RankEngine>(new RankEngine());
  HEADWAY_ASSIGN_OR_RETURN(engine->config_, ReadModelConfig(checkpoint));
  HEADWAY_ASSIGN_OR_RETURN(engine->plan_, MakeShardPlan(engine->config_, comm.size()));
  // The digest reads the whole file: once a group, while the weights are packed.
  std::future<std::string> numerics_id;
  if (comm.rank() == 0) {
    numerics_id =
        std::async(std::launch::async, [&] { return NumericsId(checkpoint, options.numerics); });
  }
  engine->team_ = std::make_unique<ThreadTeam>(options.threads);
  HEADWAY_ASSIGN_OR_RETURN(
      engine->weights_,
      Weights::Load(checkpoint, engine->config_, engine->plan_, comm.rank(), std::move(progress)));
  const RankShard& shard = engine->plan_.ranks[comm.rank()];
  HEADWAY_ASSIGN_OR_RETURN(
      engine->kv_,
      KvStorage::Create(engine->config_.layers, static_cast<int>(shard.kv_heads.size()),
                        engine->config_.head_dim, options.numerics.kv_dtype, options.kv_blocks));
  const kernels::Ops& ops = options.ops != nullptr ? *options.ops : kernels::BestCpuOps();
  HEADWAY_ASSIGN_OR_RETURN(
      engine->forward_,
      Forward::Create(engine->config_, engine->plan_, *engine->weights_, options.numerics,
                      options.limits, ops, *engine->team_, comm));
  if (numerics_id.valid()) engine->numerics_id_ = numerics_id.get();
  return engine;
}

absl::Status RankEngine::Run(std::span<const BatchSpan> batch, LayerObserver* observer) {
  return forward_->Run(batch, PagedKvView{kv_->layers()}, observer);
}

}  // namespace headway
