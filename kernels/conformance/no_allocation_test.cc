#include "kernels/conformance/kv_fixture.h"
#include "tests/allocation_counter.h"

namespace headway::kernels {
namespace {

TEST(NoAllocationTest, OpsTakeNothingFromTheHeap) {
  Random random(23);
  const int rows = 40, hidden = 64, head_dim = 16;
  const Packed q = Pack(RandomMatrix(DType::kQ4_1, 64, hidden, random));
  const Packed kv = Pack(RandomMatrix(DType::kQ4_1, 32, hidden, random));
  const Packed down = Pack(RandomMatrix(DType::kQ4_1, hidden, hidden, random));
  const Packed gate_up = Pack(RandomMatrix(DType::kQ4_1, 2 * hidden, hidden, random));
  const ActivationBuffer x = RandomActivations(ActivationFormat::kQ8, rows, hidden, random);
  ActivationBuffer y = EmptyActivations(ActivationFormat::kQ8, rows, hidden);
  KvCache cache(DType::kF16, head_dim, 2, 60, random);
  const std::vector<int32_t> a = cache.Blocks(600), b = cache.Blocks(64);
  const std::vector<SpanView> spans = {
      {.first_row = 0, .rows = 1, .first_position = 599, .block_table = a.data()},
      {.first_row = 1, .rows = 39, .first_position = 2, .block_table = b.data()}};
  const std::vector<float> rope(600 * 2 * head_dim, 0.5f), weight(hidden, 1.0f);
  std::vector<float> floats(rows * 128), residual(rows * hidden), queries(rows * 64);
  const std::vector<int> bounds = {0, 32, 64};
  const std::vector<int32_t> tokens(rows, 3);
  const std::vector<int> kv_head_of_query = {0, 0, 1, 1};
  for (const Ops* ops : SupportedCpuOps()) {
    Machine machine(*ops, 2, TestLimits());
    Stream stream = machine.stream();
    int failed = 0;
    auto run = [&] {
      const absl::Status results[] = {
          ops->Embedding({.format = DType::kF32,
                          .table = reinterpret_cast<const std::byte*>(floats.data()),
                          .vocabulary = 10,
                          .width = hidden,
                          .tokens = tokens,
                          .output = residual.data(),
                          .output_stride = hidden},
                         stream),
          ops->RmsNorm({.input = residual.data(),
                        .input_stride = hidden,
                        .rows = rows,
                        .weight = weight.data(),
                        .epsilon = 1,
                        .output = y.view},
                       stream),
          ops->Qkv({.input = x.view,
                    .rows = rows,
                    .q = q.view,
                    .k = kv.view,
                    .v = kv.view,
                    .rope = {rope.data(), head_dim, 600},
                    .spans = spans,
                    .queries = queries.data(),
                    .query_stride = 64,
                    .kv = cache.view},
                   stream),
          ops->Attention({.queries = queries.data(),
                          .query_stride = 64,
                          .query_heads = 4,
                          .kv_head_of_query = kv_head_of_query,
                          .kv = cache.view,
                          .spans = spans,
                          .rows = rows,
                          .output = y.view},
                         stream),
          ops->RowParallel({.input = x.view,
                            .rows = rows,
                            .weight = down.view,
                            .groups = {.total = 2, .first = 0, .bounds = bounds},
                            .roots = floats.data(),
                            .root_stride = 64,
                            .root_matrix_stride = rows * 64},
                           stream),
          ops->RowParallelResidual({.input = x.view,
                                    .rows = rows,
                                    .weight = down.view,
                                    .groups = {.total = 2, .first = 0, .bounds = bounds},
                                    .residual = residual.data(),
                                    .residual_stride = hidden},
                                   stream),
          ops->GateUp({.input = x.view, .rows = rows, .weight = gate_up.view, .output = y.view},
                      stream),
          ops->Logits({.input = x.view,
                       .rows = rows,
                       .weight = gate_up.view,
                       .logits = floats.data(),
                       .stride = 128},
                      stream),
      };
      for (const absl::Status& status : results) failed += !status.ok();
    };
    const int64_t before = Allocations();
    run();
    run();
    EXPECT_EQ(Allocations() - before, 0) << machine.Name();
    EXPECT_EQ(failed, 0);
  }
  // The counter counts.
  const int64_t before = Allocations();
  ::operator delete(::operator new(7));
  EXPECT_EQ(Allocations() - before, 1);
}

}  // namespace
}  // namespace headway::kernels
