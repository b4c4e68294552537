#include <algorithm>
#include <cmath>

#include "kernels/conformance/kv_fixture.h"
#include "kernels/reference/scalar_math.h"

namespace headway::kernels {
namespace {

// One sequence's part of a batch.
struct Part {
  int first_position, rows;
};

struct Case {
  DType kv;
  ActivationFormat output;
  int head_dim;
  std::vector<int> kv_head_of_query;
  std::vector<Part> parts;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << "cache " << DTypeName(c.kv) << ", " << c.kv_head_of_query.size() << "/"
       << c.kv_head_of_query.back() + 1 << " heads of " << c.head_dim << ", parts";
  for (const Part& p : c.parts) *out << " " << p.first_position << "+" << p.rows;
}

std::vector<int> Groups(const std::vector<int>& sizes) {
  std::vector<int> heads;
  for (size_t i = 0; i < sizes.size(); ++i) heads.insert(heads.end(), sizes[i], i);
  return heads;
}

// A case's data.
struct Batch {
  KvCache cache;
  std::vector<std::vector<int32_t>> tables;
  std::vector<SpanView> spans;
  int rows = 0;
  int query_stride = 0;
  std::vector<float> queries;

  Batch(const Case& c, Random& random)
      : cache(c.kv, c.head_dim, c.kv_head_of_query.back() + 1, TotalBlocks(c) + 3, random) {
    for (const Part& part : c.parts) {
      const int end = part.first_position + part.rows;
      tables.push_back(cache.Blocks(end));
      cache.FillSequence(tables.back(), end, random);
    }
    for (size_t i = 0; i < c.parts.size(); ++i) {
      spans.push_back({.first_row = rows,
                       .rows = c.parts[i].rows,
                       .first_position = c.parts[i].first_position,
                       .block_table = tables[i].data()});
      rows += c.parts[i].rows;
    }
    query_stride = static_cast<int>(c.kv_head_of_query.size()) * c.head_dim + 3;
    queries.resize(static_cast<size_t>(rows) * query_stride);
    for (float& q : queries) q = random.Symmetric(1.5f);
  }

  static int TotalBlocks(const Case& c) {
    int blocks = 0;
    for (const Part& p : c.parts) blocks += (p.first_position + p.rows + 15) / 16;
    return blocks;
  }

  AttentionParams Params(const Case& c, const Activations& output) const {
    return {.queries = queries.data(),
            .query_stride = query_stride,
            .query_heads = static_cast<int>(c.kv_head_of_query.size()),
            .kv_head_of_query = c.kv_head_of_query,
            .kv = cache.view,
            .spans = spans,
            .rows = rows,
            .output = output};
  }
};

// Float64 attention of one row and head, and a bound on float32's error in it.
void ExpectNear(const Case& c, const Batch& s, int part, int i, int head,
                const std::vector<double>& got) {
  const int kv_head = c.kv_head_of_query[head];
  const int keys = c.parts[part].first_position + i + 1;
  const int row = s.spans[part].first_row + i;
  const float* q = &s.queries[row * s.query_stride + head * c.head_dim];
  std::vector<double> scores(keys);
  double max = -INFINITY, score_error = 0;
  for (int t = 0; t < keys; ++t) {
    double score = 0, magnitude = 0;
    for (int d = 0; d < c.head_dim; ++d) {
      const double k = reference::LoadKv(c.kv, s.cache.KeyAt(kv_head, s.tables[part], t, d));
      score += q[d] * k;
      magnitude += std::fabs(q[d] * k);
    }
    scores[t] = score;
    max = std::max(max, score);
    score_error = std::max(score_error, magnitude * c.head_dim * kRounding);
  }
  double sum = 0;
  for (double& p : scores) sum += p = std::exp2(p - max);
  // A score's error e makes p wrong by ln(2) e of itself, the difference to the maximum's rounding
  // likewise; exp2 is good to 2e-7; sums and merges round once a position and split.
  const double relative = 2 * 0.7 * (score_error + (std::fabs(max) + 90) * kRounding) + 4e-7 +
                          (2.0 * std::min(keys, 256) + 4.0 * keys / 256 + 8) * kRounding;
  double largest = 0;
  std::vector<double> want(c.head_dim);
  std::vector<double> magnitude(c.head_dim);
  for (int d = 0; d < c.head_dim; ++d) {
    for (int t = 0; t < keys; ++t) {
      const double v = reference::LoadKv(c.kv, s.cache.ValueAt(kv_head, s.tables[part], t, d));
      want[d] += scores[t] / sum * v;
      magnitude[d] += scores[t] / sum * std::fabs(v);
    }
    largest = std::max(largest, std::fabs(want[d]));
  }
  for (int d = 0; d < c.head_dim; ++d) {
    double tolerance = 2 * relative * magnitude[d];
    // Blocks of 32 may take in another head, whose values are at most 2.
    if (c.output == ActivationFormat::kQ8) tolerance += 2.0 / 127 * 0.5001;
    ASSERT_NEAR(got[d], want[d], tolerance) << "part " << part << " row " << i << " head " << head;
  }
}

void Check(std::vector<Machine>& machines, const Case& c, Random& random) {
  SCOPED_TRACE(testing::PrintToString(c));
  const Batch s(c, random);
  const int width = static_cast<int>(c.kv_head_of_query.size()) * c.head_dim;
  ActivationBuffer out =
      EmptyActivations(c.output, s.rows, width, ActivationStride(width) + (s.rows % 2) * 32);
  const std::vector<uint8_t> cached = BytesOf(s.cache.memory);
  ExpectSameBits(
      machines,
      [&](const Ops& ops, Stream stream) {
        std::fill_n(out.data.data(), out.data.size(), std::byte{0x5a});
        return ops.Attention(s.Params(c, out.view), stream);
      },
      [&] { return BytesOf(out.data); });
  EXPECT_EQ(BytesOf(s.cache.memory), cached);
  for (size_t part = 0; part < c.parts.size(); ++part) {
    for (int i = 0; i < c.parts[part].rows; i += 1 + c.parts[part].rows / 4) {
      const std::vector<double> row = out.Values(s.spans[part].first_row + i);
      for (size_t h = 0; h < c.kv_head_of_query.size(); ++h) {
        const auto head = row.begin() + static_cast<int>(h) * c.head_dim;
        ExpectNear(c, s, static_cast<int>(part), i, static_cast<int>(h),
                   std::vector<double>(head, head + c.head_dim));
      }
    }
  }
}

constexpr auto kF32Output = ActivationFormat::kF32;
constexpr auto kQ8Output = ActivationFormat::kQ8;

TEST(AttentionConformance, EveryHeadSize) {
  std::vector<Machine> machines = AllMachines();
  Random random(14);
  const std::vector<Part> parts = {{20, 1}, {0, 5}, {15, 1}};
  for (int head_dim : {1, 6, 9, 10, 16, 32, 40, 48, 64, 80, 96, 128}) {
    Check(machines, {DType::kF16, kF32Output, head_dim, Groups({2, 2}), parts}, random);
    if (head_dim * 4 % 32 == 0) {
      Check(machines, {DType::kF16, kQ8Output, head_dim, Groups({2, 2}), parts}, random);
    }
  }
}

TEST(AttentionConformance, EveryCacheFormat) {
  std::vector<Machine> machines = AllMachines();
  Random random(15);
  for (DType kv : {DType::kF16, DType::kBF16, DType::kF32}) {
    for (ActivationFormat output : {kF32Output, kQ8Output}) {
      Check(machines, {kv, output, 64, Groups({3, 3}), {{300, 1}, {10, 9}}}, random);
      Check(machines, {kv, output, 16, Groups({1, 3}), {{33, 2}, {270, 1}}}, random);
    }
  }
}

TEST(AttentionConformance, EveryNumberOfQueryHeadsPerKvHead) {
  std::vector<Machine> machines = AllMachines();
  Random random(16);
  for (const std::vector<int>& sizes : std::vector<std::vector<int>>{
           {1}, {1, 1, 1}, {2, 3}, {3, 1}, {4, 4}, {5}, {6, 2}, {7}, {8}, {9}, {16}, {17}, {39}}) {
    Check(machines, {DType::kF16, kF32Output, 8, Groups(sizes), {{40, 1}, {3, 30}}}, random);
  }
}

TEST(AttentionConformance, SplitsAndBlocksAtEveryBorder) {
  std::vector<Machine> machines = AllMachines();
  Random random(17);
  for (int position : {0, 1, 15, 16, 254, 255, 256, 257, 511, 512, 700}) {
    Check(machines, {DType::kF16, kF32Output, 16, Groups({3}), {{position, 1}}}, random);
    Check(machines, {DType::kF16, kF32Output, 16, Groups({1, 2}), {{position, 19}}}, random);
  }
}

// Several tokens at once on a team that would idle: they are cut into splits; and many tokens,
// which are not.
TEST(AttentionConformance, TokensAloneAndInCrowds) {
  std::vector<Machine> machines = AllMachines();
  Random random(18);
  Check(machines, {DType::kF16, kQ8Output, 32, Groups({3}), {{1100, 1}, {600, 1}, {5, 1}}}, random);
  std::vector<Part> crowd;
  for (int i = 0; i < 20; ++i) crowd.push_back({i * 17, 1});
  Check(machines, {DType::kF16, kQ8Output, 32, Groups({3, 3}), crowd}, random);
}

TEST(AttentionConformance, TilesOfManyRows) {
  std::vector<Machine> machines = AllMachines();
  Random random(19);
  Check(machines, {DType::kF16, kQ8Output, 32, Groups({3}), {{200, 100}}}, random);
  Check(machines, {DType::kBF16, kF32Output, 8, Groups({1}), {{250, 70}, {0, 1}}}, random);
}

// How a sequence is cut into batches does not show in any row.
TEST(AttentionConformance, ChunksGiveTheBitsOfTheWhole) {
  std::vector<Machine> machines = AllMachines();
  Random random(20);
  const Case c = {DType::kF16, kQ8Output, 32, Groups({3, 3}), {{250, 45}}};
  const Batch s(c, random);
  const int width = 6 * 32;
  ActivationBuffer whole = EmptyActivations(kQ8Output, s.rows, width);
  ActivationBuffer chunks = EmptyActivations(kQ8Output, s.rows, width);
  for (Machine& m : machines) {
    if (m.ops == &ReferenceOps()) continue;
    Stream stream = m.stream();
    ASSERT_TRUE(m.ops->Attention(s.Params(c, whole.view), stream).ok());
    for (int chunk : {1, 2, 7, 16, 33}) {
      for (int first = 0; first < s.rows; first += chunk) {
        const int rows = std::min(chunk, s.rows - first);
        AttentionParams p = s.Params(c, chunks.view);
        p.queries += first * s.query_stride;
        p.output.data = chunks.view.q8(first);
        p.rows = rows;
        const SpanView span = {.first_row = 0,
                               .rows = rows,
                               .first_position = 250 + first,
                               .block_table = s.tables[0].data()};
        p.spans = std::span(&span, 1);
        ASSERT_TRUE(m.ops->Attention(p, stream).ok());
      }
      ASSERT_EQ(BytesOf(chunks.data), BytesOf(whole.data)) << m.Name() << ", chunks of " << chunk;
    }
  }
}

// A row of NaN queries, and values that underflow against small probabilities, change no other row.
TEST(AttentionConformance, RowsAreIndependent) {
  std::vector<Machine> machines = AllMachines();
  Random random(21);
  const Case c = {DType::kF32, kF32Output, 16, Groups({2}), {{3, 20}}};
  Batch s(c, random);
  for (int p = 0; p < 23; ++p) {
    for (int d = 0; d < 16; ++d) {
      reference::StoreKv(DType::kF32, random.Symmetric(1e-38f),
                         s.cache.ValueAt(0, s.tables[0], p, d));
      reference::StoreKv(DType::kF32, random.Symmetric(20.0f), s.cache.KeyAt(0, s.tables[0], p, d));
    }
  }
  ActivationBuffer out = EmptyActivations(kF32Output, s.rows, 32);
  ExpectSameBits(
      machines,
      [&](const Ops& ops, Stream stream) { return ops.Attention(s.Params(c, out.view), stream); },
      [&] { return BytesOf(out.data); });
  const std::vector<uint8_t> before = BytesOf(out.data);
  for (int d = 0; d < 32; ++d) s.queries[7 * s.query_stride + d] = NAN;
  for (Machine& m : machines) {
    Stream stream = m.stream();
    ASSERT_TRUE(m.ops->Attention(s.Params(c, out.view), stream).ok());
    const std::vector<uint8_t> after = BytesOf(out.data);
    for (int row = 0; row < s.rows; ++row) {
      const bool same = std::equal(before.begin() + row * 128, before.begin() + (row + 1) * 128,
                                   after.begin() + row * 128);
      EXPECT_EQ(same, row != 7) << m.Name() << ", row " << row;
    }
    EXPECT_TRUE(std::isnan(out.Values(7)[3])) << m.Name();
  }
}

TEST(AttentionConformance, RefusesWhatItCannotTake) {
  std::vector<Machine> machines = AllMachines();
  Random random(22);
  const Case c = {DType::kF16, kF32Output, 8, Groups({1, 2}), {{20, 2}}};
  Batch s(c, random);
  ActivationBuffer out = EmptyActivations(kF32Output, 2, 24);
  const std::vector<uint8_t> before = BytesOf(out.data);
  const AttentionParams good = s.Params(c, out.view);
  auto expect = [&](const AttentionParams& p, const std::string& text) {
    ExpectInvalid(
        machines, [&](const Ops& ops, Stream st) { return ops.Attention(p, st); }, text);
  };
  AttentionParams p = good;
  p.output.width = 23;
  expect(p, "width of the output is 23");
  p = good;
  p.output.format = ActivationFormat::kQ8;
  expect(p, "24 wide, not a multiple of 32");
  p = good;
  p.query_stride = 20;
  expect(p, "query_stride is 20");
  p = good;
  const std::vector<int> falling = {1, 0, 1}, beyond = {0, 1, 2}, two = {0, 1};
  p.kv_head_of_query = falling;
  expect(p, "kv_head_of_query is 0, outside [1, 1]");
  p.kv_head_of_query = beyond;
  expect(p, "kv_head_of_query is 2, outside [1, 1]");
  p.kv_head_of_query = two;
  expect(p, "kv_head_of_query is 2, outside [3, 3]");
  p = good;
  s.tables[0][0] = 1000;
  expect(p, "block id is 1000");
  s.tables[0][0] = 0;
  s.spans[0].first_position = -1;
  expect(p, "first position is -1");
  EXPECT_EQ(BytesOf(out.data), before);

  WorkspaceLimits brief = TestLimits(), few = TestLimits();
  brief.max_positions = 21;
  few.query_heads = 2;
  s.spans[0].first_position = 20;
  for (const Ops* ops : SupportedCpuOps()) {
    Machine a(*ops, 2, brief), b(*ops, 2, few);
    Stream stream = a.stream();
    EXPECT_THAT(std::string(ops->Attention(good, stream).message()),
                testing::HasSubstr("positions is 22, but the workspace was sized for 21"));
    stream = b.stream();
    EXPECT_THAT(std::string(ops->Attention(good, stream).message()),
                testing::HasSubstr("query heads is 3"));
  }
}

}  // namespace
}  // namespace headway::kernels
