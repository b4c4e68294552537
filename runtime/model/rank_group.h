#ifndef HEADWAY_RUNTIME_MODEL_RANK_GROUP_H_
#define HEADWAY_RUNTIME_MODEL_RANK_GROUP_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/model/forward.h"

namespace headway {

// For tests: all ranks of one model in this process, with a thread each, a communicator of threads,
// and a KV cache.
class RankGroup {
 public:
  struct Options {
    int degree = 1;
    int threads = 1;  // of each rank
    NumericsOptions numerics = {.kv_dtype = DType::kF32};
    ForwardLimits limits;
    int num_blocks = 64;
    const kernels::Ops* ops = &kernels::BestCpuOps();
    std::vector<const kernels::Ops*> ops_of_rank = {};  // empty: `ops` on every rank
  };
  // `checkpoint` must outlive the result.
  static absl::StatusOr<std::unique_ptr<RankGroup>> Create(const Checkpoint& checkpoint,
                                                           const Options& options);
  virtual ~RankGroup() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const ShardPlan& plan() const = 0;
  virtual Forward& forward(int rank) = 0;
  virtual PagedKvView kv(int rank) = 0;

  // On every rank at once; the first rank's error. `observers`: one a rank, or none.
  virtual absl::Status Run(std::span<const BatchSpan> batch,
                           std::span<LayerObserver* const> observers = {}) = 0;
};

// Logits of rows, row after row: [rows][vocabulary].
using LogitRows = std::vector<std::vector<float>>;

// A sequence in a group's cache: its blocks are `first_block`, `first_block` + `stride`, ... modulo
// the number of blocks (a stride that has no factor in common with it scatters them).
class TestSequence {
 public:
  TestSequence(RankGroup& group, int num_blocks, int first_block = 0, int stride = 1);

  // The span of the next tokens, valid as long as this object; Advance when it has run.
  BatchSpan Next(std::span<const int32_t> tokens, BatchSpan::Logits logits) const&;
  void Advance(size_t tokens) { position_ += static_cast<int32_t>(tokens); }

  // Runs `tokens` alone, `chunk` at a time, and returns the logits of each. Ends the test program
  // when a run fails.
  LogitRows Feed(std::span<const int32_t> tokens, int chunk);
  // Feeds `tokens`, then the best token again and again; returns `count` best tokens.
  std::vector<int32_t> Greedy(std::span<const int32_t> tokens, int count);

 private:
  RankGroup& group_;
  std::vector<int32_t> blocks_;
  int32_t position_ = 0;
};

LogitRows CopyLogits(RankGroup& group);
// Whether all bits agree; says where they do not.
testing::AssertionResult SameBits(const LogitRows& a, const LogitRows& b);
// Ties go to the lower id.
int32_t ArgMax(std::span<const float> logits);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_RANK_GROUP_H_
