#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/reference_ops.h"
#include "kernels/reference/scalar_math.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"

namespace headway::kernels::reference {
namespace {

// One KV head of one sequence.
struct Head {
  const KvLayerView& kv;
  int head;
  const int32_t* block_table;

  float Key(int position, int d) const {
    return LoadKv(kv.dtype, Run(position) + (d * kKvBlockTokens + position % kKvBlockTokens) *
                                                BlockBytes(kv.dtype));
  }
  float Value(int position, int d) const {
    return LoadKv(kv.dtype,
                  Run(position) + kv.HalfRunBytes() +
                      (position % kKvBlockTokens * kv.head_dim + d) * BlockBytes(kv.dtype));
  }

 private:
  const std::byte* Run(int position) const {
    return kv.Run(head, block_table[position / kKvBlockTokens]);
  }
};

// A softmax under way: over one split, or over the splits so far.
struct State {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0;
  std::vector<float> out;  // [head_dim]
};

// Positions [begin, end) of one split.
State AttendSplit(const float* query, const Head& head, int begin, int end) {
  const int head_dim = head.kv.head_dim;
  State s;
  std::vector<float> p(end - begin);
  for (int t = begin; t < end; ++t) {
    float score = 0;
    for (int d = 0; d < head_dim; ++d) score = std::fma(query[d], head.Key(t, d), score);
    p[t - begin] = score;
    s.max = score > s.max ? score : s.max;
  }
  Lanes lanes = {};
  for (int t = begin; t < end; ++t) {
    p[t - begin] = Exp2(p[t - begin] - s.max);
    lanes[t % 16] += p[t - begin];
  }
  s.sum = SumLanes(lanes);
  s.out.assign(head_dim, 0.0f);
  for (int d = 0; d < head_dim; ++d) {
    for (int t = begin; t < end; ++t) s.out[d] = std::fma(p[t - begin], head.Value(t, d), s.out[d]);
    s.out[d] += 0.0f;
  }
  return s;
}

void Merge(State& s, const State& next) {
  const float max = s.max > next.max ? s.max : next.max;
  const float a = Exp2(s.max - max);
  const float b = Exp2(next.max - max);
  s.sum = s.sum * a + next.sum * b;
  for (size_t d = 0; d < s.out.size(); ++d) s.out[d] = s.out[d] * a + next.out[d] * b;
  s.max = max;
}

}  // namespace

absl::Status Attention(const AttentionParams& p, Stream&) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  const int head_dim = p.kv.head_dim;
  std::vector<float> result(p.output.width);
  for (const SpanView& span : p.spans) {
    for (int i = 0; i < span.rows; ++i) {
      const int row = span.first_row + i;
      const int keys = span.first_position + i + 1;
      for (int h = 0; h < p.query_heads; ++h) {
        const float* query = p.queries + static_cast<int64_t>(row) * p.query_stride + h * head_dim;
        const Head head = {p.kv, p.kv_head_of_query[h], span.block_table};
        State s = AttendSplit(query, head, 0, std::min(keys, kAttentionSplit));
        for (int begin = kAttentionSplit; begin < keys; begin += kAttentionSplit) {
          Merge(s, AttendSplit(query, head, begin, std::min(keys, begin + kAttentionSplit)));
        }
        for (int d = 0; d < head_dim; ++d) result[h * head_dim + d] = s.out[d] / s.sum;
      }
      StoreActivations(result, p.output, row);
    }
  }
  return absl::OkStatus();
}

}  // namespace headway::kernels::reference
