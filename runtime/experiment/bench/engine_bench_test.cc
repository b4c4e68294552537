#include "runtime/experiment/bench/engine_bench.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(EngineBenchTest, EveryRowRunsAtTwoDegreesAndWhatDoesNotFitIsLeftOut) {
  auto checkpoint = Checkpoint::Open(GoldenPath("models/llama_gqa_9_3"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  for (int degree : {1, 2}) {
    EngineBenchOptions options = {.degree = degree,
                                  .prefill_tokens = {5, 33, 1 << 20},
                                  .batches = {1, 3},
                                  .decode_tokens = 2,
                                  .short_context = 3,
                                  .long_context = 20,
                                  .repeats = 2};
    options.engine.numerics.kv_dtype = DType::kF32;
    options.engine.limits = {.max_rows = 16, .max_logit_rows = 4, .max_positions = 48};
    std::vector<std::string> works;
    testing::internal::CaptureStderr();
    const absl::Status status = RunEngineBench(**checkpoint, options, [&](const BenchRow& row) {
      works.push_back(row.work);
      EXPECT_GT(row.tokens_per_second, 0);
      EXPECT_GE(row.best_tokens_per_second, row.tokens_per_second);
      EXPECT_GT(row.weight_bytes_per_second, 0);
      EXPECT_GT(row.read_bandwidth, 0);
    });
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_THAT(log, HasSubstr("leaves out \"prefill 1048576\""));
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_THAT(works, ElementsAre("prefill 5", "prefill 33", "decode, 1 sequence",
                                   "decode, 3 sequences", "decode, 1 sequence after 20 tokens"));
  }
}

}  // namespace
}  // namespace headway
