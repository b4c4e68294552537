#include <algorithm>
#include <cmath>

#include "kernels/conformance/kv_fixture.h"
#include "kernels/reference/scalar_math.h"
#include "runtime/tensor/half.h"

namespace headway::kernels {
namespace {

struct Case {
  DType q, k, v;
  ActivationFormat activations;
  DType kv;
  int query_heads, kv_heads, head_dim, inputs;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << DTypeName(c.q) << "/" << DTypeName(c.k) << "/" << DTypeName(c.v) << ", cache "
       << DTypeName(c.kv) << ", " << c.query_heads << "/" << c.kv_heads << " heads of "
       << c.head_dim << ", " << c.inputs << " inputs";
}

std::vector<float> Rope(int positions, int head_dim) {
  std::vector<float> table(static_cast<size_t>(positions) * 2 * head_dim);
  for (int p = 0; p < positions; ++p) {
    for (int d = 0; d < head_dim; ++d) {
      const double angle = p * std::pow(100.0, -double(d / 2 * 2) / head_dim);
      float* row = &table[static_cast<size_t>(p) * 2 * head_dim];
      row[d] = static_cast<float>(std::cos(angle));
      row[head_dim + d] = static_cast<float>(d % 2 == 0 ? -std::sin(angle) : std::sin(angle));
    }
  }
  return table;
}

constexpr auto kF32Activations = ActivationFormat::kF32;
constexpr auto kQ8Activations = ActivationFormat::kQ8;
constexpr auto kQ16Activations = ActivationFormat::kQ16;

TEST(QkvConformance, EveryShapeFormatAndCache) {
  std::vector<Machine> machines = AllMachines();
  Random random(11);
  using enum DType;
  for (const Case& c :
       std::vector<Case>{{kF32, kF32, kF32, kF32Activations, kF32, 9, 3, 6, 54},
                         {kF16, kF16, kF16, kF32Activations, kF16, 6, 2, 10, 60},
                         {kBF16, kBF16, kBF16, kF32Activations, kBF16, 5, 5, 12, 60},
                         {kF32, kF16, kBF16, kF32Activations, kF16, 3, 1, 16, 48},
                         {kQ4_1, kQ4_1, kQ4_1, kQ8Activations, kF16, 9, 3, 64, 96},
                         {kQ4_0, kQ8_0, kQ4_1, kQ8Activations, kBF16, 2, 1, 80, 64},
                         {kQ8_0, kQ8_0, kQ8_0, kQ8Activations, kF32, 4, 2, 48, 32},
                         {kQ4_1, kQ4_0, kQ8_0, kF32Activations, kF32, 2, 2, 128, 64},
                         {kQ4_1, kQ4_1, kQ8_0, kQ8Activations, kBF16, 4, 2, 32, 64},
                         {kQ4_1, kQ4_1, kQ4_1, kQ16Activations, kF16, 9, 3, 64, 96},
                         {kQ8_0, kQ4_0, kQ8_0, kQ16Activations, kF32, 3, 1, 48, 64}}) {
    SCOPED_TRACE(testing::PrintToString(c));
    const Matrix mq = RandomMatrix(c.q, c.query_heads * c.head_dim, c.inputs, random);
    const Matrix mk = RandomMatrix(c.k, c.kv_heads * c.head_dim, c.inputs, random);
    const Matrix mv = RandomMatrix(c.v, c.kv_heads * c.head_dim, c.inputs, random);
    Packed q = Pack(mq), k = Pack(mk), v = Pack(mv);
    const bool biased = c.head_dim % 3 != 0;
    if (biased) {
      AddBias(q, random);
      AddBias(k, random);
      AddBias(v, random);
    }
    const std::vector<float> rope = Rope(100, c.head_dim);
    KvCache cache(c.kv, c.head_dim, c.kv_heads, 12, random);
    const std::vector<int32_t> a = cache.Blocks(100), b = cache.Blocks(30);
    // Rows across block borders, a decoded token, a span of nothing.
    const std::vector<SpanView> spans = {
        {.first_row = 0, .rows = 1, .first_position = 99, .block_table = a.data()},
        {.first_row = 1, .rows = 0},
        {.first_row = 1, .rows = 18, .first_position = 7, .block_table = b.data()}};
    const int rows = 19;
    const ActivationBuffer x = RandomActivations(c.activations, rows, c.inputs, random);
    const int query_stride = c.query_heads * c.head_dim + 5;
    const std::vector<uint8_t> before = BytesOf(cache.memory);
    std::vector<float> queries;
    const float query_scale = 0.37f;
    ExpectSameBits(
        machines,
        [&](const Ops& ops, Stream stream) {
          std::copy(before.begin(), before.end(), cache.memory.As<uint8_t>());
          queries.assign(rows * query_stride, -7.0f);
          return ops.Qkv({.input = x.view,
                          .rows = rows,
                          .q = q.view,
                          .k = k.view,
                          .v = v.view,
                          .rope = {rope.data(), c.head_dim, 100},
                          .query_scale = query_scale,
                          .spans = spans,
                          .queries = queries.data(),
                          .query_stride = query_stride,
                          .kv = cache.view},
                         stream);
        },
        [&] {
          std::vector<uint8_t> bits = BytesOf(queries);
          const std::vector<uint8_t> cached = BytesOf(cache.memory);
          bits.insert(bits.end(), cached.begin(), cached.end());
          return bits;
        });

    // Against float64: the chain, the bias, the rotation (two products), the scale; the cache's
    // rounding.
    const double cache_rounding = c.kv == kF16 ? 0x1p-11 : c.kv == kBF16 ? 0x1p-8 : kRounding;
    for (int row = 0; row < rows; ++row) {
      const int position = row == 0 ? 99 : 7 + row - 1;
      const std::vector<int32_t>& table = row == 0 ? a : b;
      const std::vector<double> values = x.Values(row);
      auto project = [&](const Matrix& m, const Packed& p, int o, double* error) {
        const std::vector<double> w = m.Decoded(o);
        double sum = biased ? p.bias[o] : 0.0, magnitude = std::fabs(sum);
        for (int i = 0; i < c.inputs; ++i) {
          sum += w[i] * values[i];
          magnitude += (std::fabs(w[i]) + 1) * std::fabs(values[i]);
        }
        *error = magnitude * (c.inputs + 8) * kRounding;
        return sum;
      };
      auto rotate = [&](const Matrix& m, const Packed& p, int head, int d, double* error) {
        double e1, e2;
        const double own = project(m, p, head * c.head_dim + d, &e1);
        const double other = project(m, p, head * c.head_dim + (d ^ 1), &e2);
        const float* row_table = &rope[static_cast<size_t>(position) * 2 * c.head_dim];
        *error = e1 + e2 + (std::fabs(own) + std::fabs(other)) * 4 * kRounding;
        return own * row_table[d] + other * row_table[c.head_dim + d];
      };
      for (int d = 0; d < c.head_dim; ++d) {
        double error;
        for (int h = 0; h < c.query_heads; ++h) {
          const double want = rotate(mq, q, h, d, &error) * query_scale;
          ASSERT_NEAR(queries[row * query_stride + h * c.head_dim + d], want, error);
        }
        for (int h = 0; h < c.kv_heads; ++h) {
          double want = rotate(mk, k, h, d, &error);
          error += std::fabs(want) * cache_rounding + 1e-7;
          ASSERT_NEAR(reference::LoadKv(c.kv, cache.KeyAt(h, table, position, d)), want, error);
          want = project(mv, v, h * c.head_dim + d, &error);
          error += std::fabs(want) * cache_rounding + 1e-7;
          ASSERT_NEAR(reference::LoadKv(c.kv, cache.ValueAt(h, table, position, d)), want, error);
        }
      }
      ASSERT_EQ(queries[row * query_stride + c.query_heads * c.head_dim], -7.0f);
    }
    // Nothing else of the cache was touched.
    std::vector<uint8_t> expected = before;
    auto allow = [&](const std::byte* at) {
      const int64_t offset = at - cache.memory.data();
      std::copy_n(cache.memory.As<uint8_t>() + offset, BlockBytes(c.kv), expected.begin() + offset);
    };
    for (int row = 0; row < rows; ++row) {
      const int position = row == 0 ? 99 : 7 + row - 1;
      for (int h = 0; h < c.kv_heads; ++h) {
        for (int d = 0; d < c.head_dim; ++d) {
          allow(cache.KeyAt(h, row == 0 ? a : b, position, d));
          allow(cache.ValueAt(h, row == 0 ? a : b, position, d));
        }
      }
    }
    ASSERT_EQ(BytesOf(cache.memory), expected);
  }
}

// Values that the cache's format cannot hold are stored finite.
TEST(QkvConformance, TheCacheStaysFinite) {
  std::vector<Machine> machines = AllMachines();
  Random random(12);
  const int head_dim = 16;
  for (DType kv : {DType::kF16, DType::kBF16, DType::kF32}) {
    SCOPED_TRACE(DTypeName(kv));
    std::vector<float> one(head_dim * head_dim);
    for (int i = 0; i < head_dim; ++i) one[i * head_dim + i] = 1;
    std::vector<const std::byte*> rows;
    for (int i = 0; i < head_dim; ++i) {
      rows.push_back(reinterpret_cast<const std::byte*>(&one[i * head_dim]));
    }
    HostBuffer packed = Memory(PackedLinearBytes(DType::kF32, head_dim, head_dim));
    PackLinear(DType::kF32, rows, head_dim, packed.data());
    const PackedLinear w = {DType::kF32, head_dim, head_dim, packed.data(), nullptr};
    std::vector<float> rope(2 * head_dim);
    std::fill_n(rope.begin(), head_dim, 1.0f);
    KvCache cache(kv, head_dim, 1, 1, random);
    const std::vector<int32_t> table = cache.Blocks(1);
    const SpanView span = {
        .first_row = 0, .rows = 1, .first_position = 0, .block_table = table.data()};
    ActivationBuffer x = EmptyActivations(ActivationFormat::kF32, 1, head_dim);
    // The identity's zero times an infinity would be NaN, so large finite numbers stand in for it.
    const std::vector<float> values = {65504.0f, 65519.0f, 65520.0f, -65520.0f, 1e38f, -3.4e38f,
                                       1e-8f,    6e-8f,    -1e-7f,   3e-5f,     1.0f,  -2.0f,
                                       3.39e38f, 0.1f,     2049.0f,  0.0f};
    std::copy(values.begin(), values.end(), x.view.f32(0));
    std::fill_n(x.view.f32(0) + head_dim, 16, 0.0f);
    std::vector<float> queries(head_dim);
    ExpectSameBits(
        machines,
        [&](const Ops& ops, Stream stream) {
          return ops.Qkv({.input = x.view,
                          .rows = 1,
                          .q = w,
                          .k = w,
                          .v = w,
                          .rope = {rope.data(), head_dim, 1},
                          .spans = std::span(&span, 1),
                          .queries = queries.data(),
                          .query_stride = head_dim,
                          .kv = cache.view},
                         stream);
        },
        [&] { return BytesOf(cache.memory); });
    for (int d = 0; d < head_dim; ++d) {
      const float stored = reference::LoadKv(kv, cache.ValueAt(0, table, 0, d));
      EXPECT_TRUE(std::isfinite(stored)) << values[d];
      if (kv == DType::kF16) {
        EXPECT_EQ(stored, F16ToFloat(FloatToF16(std::clamp(values[d], -65504.0f, 65504.0f))));
      }
      if (kv == DType::kF32) {
        EXPECT_EQ(stored, values[d]);
      }
    }
    // NaN is stored as the lowest value, on every processor.
    x.view.f32(0)[3] = NAN;
    ExpectSameBits(
        machines,
        [&](const Ops& ops, Stream stream) {
          return ops.Qkv({.input = x.view,
                          .rows = 1,
                          .q = w,
                          .k = w,
                          .v = w,
                          .rope = {rope.data(), head_dim, 1},
                          .spans = std::span(&span, 1),
                          .queries = queries.data(),
                          .query_stride = head_dim,
                          .kv = cache.view},
                         stream);
        },
        [&] { return BytesOf(cache.memory); });
    for (int d = 0; d < head_dim; ++d) {
      EXPECT_TRUE(std::isfinite(reference::LoadKv(kv, cache.KeyAt(0, table, 0, d))));
    }
  }
}

TEST(QkvConformance, RefusesWhatItCannotTake) {
  std::vector<Machine> machines = AllMachines();
  Random random(13);
  const Packed w = Pack(RandomMatrix(DType::kF32, 16, 8, random));
  const ActivationBuffer x = RandomActivations(ActivationFormat::kF32, 2, 8, random);
  KvCache cache(DType::kF16, 8, 2, 3, random);
  const std::vector<uint8_t> before = BytesOf(cache.memory);
  std::vector<int32_t> table = {1, 2};
  const std::vector<float> rope = Rope(32, 8);
  std::vector<float> queries(32, -7.0f);
  std::vector<SpanView> spans = {
      {.first_row = 0, .rows = 2, .first_position = 15, .block_table = table.data()}};
  const QkvParams good = {.input = x.view,
                          .rows = 2,
                          .q = w.view,
                          .k = w.view,
                          .v = w.view,
                          .rope = {rope.data(), 8, 32},
                          .spans = spans,
                          .queries = queries.data(),
                          .query_stride = 16,
                          .kv = cache.view};
  auto expect = [&](const QkvParams& p, const std::string& text) {
    ExpectInvalid(
        machines, [&](const Ops& ops, Stream s) { return ops.Qkv(p, s); }, text);
  };
  QkvParams p = good;
  p.k.outputs = 8;
  expect(p, "k outputs is 8");
  p = good;
  p.kv.dtype = DType::kQ8_0;
  expect(p, "a KV cache of q8_0");
  p = good;
  p.kv.head_dim = 5;
  expect(p, "head_dim is 5, odd");
  p = good;
  p.rope.head_dim = 6;
  expect(p, "head_dim of the rope table is 6");
  p = good;
  p.rope.max_positions = 16;
  expect(p, "first position is 15, outside [0, 14]");
  p = good;
  p.query_stride = 15;
  expect(p, "query_stride is 15");
  p = good;
  p.rows = 1;
  expect(p, "rows [0, 2)");
  spans[0].rows = 1;
  expect(good, "the spans cover 1 of 2 rows");
  spans[0].rows = 2;
  table[1] = 3;
  expect(good, "block id is 3, outside [0, 2]");
  table[1] = -1;
  expect(good, "block id is -1");
  spans[0].block_table = nullptr;
  expect(good, "block table is null");
  EXPECT_EQ(BytesOf(cache.memory), before);
  EXPECT_THAT(queries, testing::Each(-7.0f));
}

}  // namespace
}  // namespace headway::kernels
