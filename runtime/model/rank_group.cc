#include "runtime/model/rank_group.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <thread>
#include <utility>

#include "kernels/kv_pool.h"
#include "runtime/base/check.h"
#include "runtime/base/status.h"
#include "runtime/comm/local_communicator.h"
#include "runtime/device/host_buffer.h"

namespace headway {
namespace {

struct Rank {
  std::unique_ptr<ThreadTeam> team;
  std::unique_ptr<Communicator> comm;
  std::unique_ptr<Weights> weights;
  HostBuffer kv_memory;
  std::vector<kernels::KvLayerView> kv;
  std::unique_ptr<Forward> forward;
};

absl::Status AllocateKv(const ModelConfig& config, int kv_heads, DType dtype, int num_blocks,
                        Rank& rank) {
  const kernels::KvLayerView layer = {
      .dtype = dtype, .head_dim = config.head_dim, .kv_heads = kv_heads, .num_blocks = num_blocks};
  HEADWAY_ASSIGN_OR_RETURN(rank.kv_memory,
                           HostBuffer::Allocate(kernels::KvPoolBytes(layer, config.layers)));
  rank.kv = kernels::KvPoolViews(layer, config.layers, rank.kv_memory.data());
  return absl::OkStatus();
}

class ThreadedRanks : public RankGroup {
 public:
  ThreadedRanks(ModelConfig config, ShardPlan plan)
      : config_(std::move(config)), plan_(std::move(plan)), ranks_(plan_.degree) {}

  absl::Status Start(const Checkpoint& checkpoint, const Options& options) {
    auto comms = NewLocalCommunicators(options.degree);
    for (int r = 0; r < options.degree; ++r) {
      Rank& rank = ranks_[r];
      rank.team = std::make_unique<ThreadTeam>(options.threads);
      rank.comm = std::move(comms[r]);
      HEADWAY_ASSIGN_OR_RETURN(rank.weights, Weights::Load(checkpoint, config_, plan_, r));
      HEADWAY_RETURN_IF_ERROR(AllocateKv(config_, static_cast<int>(plan_.ranks[r].kv_heads.size()),
                                         options.numerics.kv_dtype, options.num_blocks, rank));
      HEADWAY_ASSIGN_OR_RETURN(
          rank.forward,
          Forward::Create(config_, plan_, *rank.weights, options.numerics, options.limits,
                          options.ops_of_rank.empty() ? *options.ops : *options.ops_of_rank[r],
                          *rank.team, *rank.comm));
    }
    return absl::OkStatus();
  }

  const ModelConfig& config() const override { return config_; }
  const ShardPlan& plan() const override { return plan_; }
  Forward& forward(int rank) override { return *ranks_[rank].forward; }
  PagedKvView kv(int rank) override { return {.layers = ranks_[rank].kv}; }

  absl::Status Run(std::span<const BatchSpan> batch,
                   std::span<LayerObserver* const> observers) override {
    std::vector<absl::Status> statuses(ranks_.size());
    const auto run = [&](size_t r) {
      statuses[r] = ranks_[r].forward->Run(batch, kv(static_cast<int>(r)),
                                           observers.empty() ? nullptr : observers[r]);
    };
    std::vector<std::thread> threads;
    for (size_t r = 1; r < ranks_.size(); ++r) threads.emplace_back(run, r);
    run(0);
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) HEADWAY_RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

 private:
  const ModelConfig config_;
  const ShardPlan plan_;
  std::vector<Rank> ranks_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankGroup>> RankGroup::Create(const Checkpoint& checkpoint,
                                                             const Options& options) {
  HEADWAY_ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(checkpoint));
  HEADWAY_ASSIGN_OR_RETURN(ShardPlan plan, MakeShardPlan(config, options.degree));
  auto group = std::make_unique<ThreadedRanks>(std::move(config), std::move(plan));
  HEADWAY_RETURN_IF_ERROR(group->Start(checkpoint, options));
  return group;
}

TestSequence::TestSequence(RankGroup& group, int num_blocks, int first_block, int stride)
    : group_(group) {
  const int64_t pool = group.kv(0).layers[0].num_blocks;
  for (int64_t i = 0; i < num_blocks; ++i) {
    blocks_.push_back(static_cast<int32_t>((first_block + i * stride) % pool));
  }
}

BatchSpan TestSequence::Next(std::span<const int32_t> tokens, BatchSpan::Logits logits) const& {
  HEADWAY_CHECK(position_ + tokens.size() <= blocks_.size() * kernels::kKvBlockTokens);
  return {.tokens = tokens, .first_position = position_, .block_table = blocks_, .logits = logits};
}

LogitRows TestSequence::Feed(std::span<const int32_t> tokens, int chunk) {
  LogitRows logits;
  while (!tokens.empty()) {
    const auto part = tokens.first(std::min<size_t>(chunk, tokens.size()));
    tokens = tokens.subspan(part.size());
    const BatchSpan span = Next(part, BatchSpan::Logits::kAll);
    const absl::Status status = group_.Run({&span, 1});
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
    HEADWAY_CHECK(status.ok());
    Advance(part.size());
    for (auto& row : CopyLogits(group_)) logits.push_back(std::move(row));
  }
  return logits;
}

std::vector<int32_t> TestSequence::Greedy(std::span<const int32_t> tokens, int count) {
  std::vector<int32_t> best;
  LogitRows logits = Feed(tokens, group_.forward(0).limits().max_logit_rows);
  while (true) {
    best.push_back(ArgMax(logits.back()));
    if (static_cast<int>(best.size()) == count) return best;
    logits = Feed({&best.back(), 1}, 1);
  }
}

LogitRows CopyLogits(RankGroup& group) {
  LogitRows logits;
  for (int i = 0; i < group.forward(0).logit_rows(); ++i) {
    const std::span<const float> row = group.forward(0).logits(i);
    logits.emplace_back(row.begin(), row.end());
  }
  return logits;
}

testing::AssertionResult SameBits(const LogitRows& a, const LogitRows& b) {
  if (a.size() != b.size()) {
    return testing::AssertionFailure() << a.size() << " and " << b.size() << " rows";
  }
  for (size_t row = 0; row < a.size(); ++row) {
    if (a[row].size() != b[row].size()) {
      return testing::AssertionFailure() << a[row].size() << " and " << b[row].size() << " logits";
    }
    for (size_t i = 0; i < a[row].size(); ++i) {
      if (std::bit_cast<uint32_t>(a[row][i]) == std::bit_cast<uint32_t>(b[row][i])) continue;
      return testing::AssertionFailure()
             << "row " << row << ", logit " << i << ": " << a[row][i] << " and " << b[row][i];
    }
  }
  return testing::AssertionSuccess();
}

int32_t ArgMax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace headway
