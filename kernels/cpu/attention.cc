#include <algorithm>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/workspace.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"

namespace headway::kernels::cpu {
namespace {

constexpr char kOp[] = "attention";

// Multiplications below which waking the team costs more than it gains.
constexpr int64_t kSerialProducts = 8000;
// A tile of rows shares the conversion of a split, but too long a one leaves threads idle.
constexpr int kMaxTileTokens = 64;

int Splits(const SpanView& span) {
  return (span.first_position + span.rows + kAttentionSplit - 1) / kAttentionSplit;
}

// Neighbouring query heads with the same KV head, at most kMaxHeadRun.
void FindRuns(std::span<const int> kv_head_of_query, std::vector<HeadRun>& runs) {
  runs.clear();
  for (int h = 0; h < static_cast<int>(kv_head_of_query.size()); ++h) {
    const int kv_head = kv_head_of_query[h];
    if (runs.empty() || runs.back().kv_head != kv_head || runs.back().count == kMaxHeadRun) {
      runs.push_back({h, 0, kv_head});
    }
    ++runs.back().count;
  }
}

int LongestRun(const std::vector<HeadRun>& runs) {
  int longest = 1;
  for (const HeadRun& run : runs) longest = std::max(longest, run.count);
  return longest;
}

// One op's work, as its units see it.
struct Plan {
  const AttentionParams& p;
  const Table& table;
  CpuWorkspace& workspace;
  KvLayer kv;
  bool by_head_q8;  // heads are quantised as they are finished
  float* rows;      // else their results, [rows][row_stride]
  int64_t row_stride;
  int64_t state_stride;
  int max_splits;  // of the tokens that are cut into splits

  AttentionUnit Unit(const SpanView& span, const HeadRun& run, int first, int rows_of_unit) const {
    const int64_t row = span.first_row + first;
    const int column = run.first * p.kv.head_dim;
    return {
        .queries = p.queries + row * p.query_stride + column,
        .query_stride = p.query_stride,
        .heads = run.count,
        .rows = rows_of_unit,
        .first_position = span.first_position + first,
        .block_table = span.block_table,
        .kv = kv,
        .kv_head = run.kv_head,
        .q8 = by_head_q8,
        .output = by_head_q8 ? static_cast<void*>(p.output.q8(static_cast<int>(row)) + column / 32)
                             : rows + row * row_stride + column,
        .output_stride = by_head_q8 ? p.output.stride / 32 : row_stride,
    };
  }

  // State of (token, split 0, query head 0).
  float* States(int token) const {
    return workspace.split_states() +
           static_cast<int64_t>(token) * max_splits * p.query_heads * state_stride;
  }
};

// Items of all spans, longest first. Tokens are cut into splits where whole ones would leave
// threads idle. Returns the number of tokens that were.
int FindItems(const Plan& plan, const ThreadTeam& team, int* max_splits) {
  const int runs = static_cast<int>(plan.workspace.runs().size());
  const int tile_tokens =
      std::clamp(kTileRows / LongestRun(plan.workspace.runs()), 1, kMaxTileTokens);
  int64_t units = 0;
  int tokens = 0;
  *max_splits = 0;
  for (const SpanView& span : plan.p.spans) {
    units += static_cast<int64_t>((span.rows + tile_tokens - 1) / tile_tokens) * runs;
    if (span.rows != 1) continue;
    ++tokens;
    *max_splits = std::max(*max_splits, Splits(span));
  }
  const bool cut =
      units < 4 * team.size() && *max_splits > 1 &&
      static_cast<int64_t>(tokens) * *max_splits * plan.p.query_heads <=
          plan.workspace.max_split_states() &&
      static_cast<int64_t>(tokens) * *max_splits + plan.p.rows <= plan.workspace.max_items();
  std::vector<AttentionItem>& items = plan.workspace.items();
  items.clear();
  int token = 0;
  for (int s = 0; s < static_cast<int>(plan.p.spans.size()); ++s) {
    const SpanView& span = plan.p.spans[s];
    if (cut && span.rows == 1) {
      for (int i = 0; i < Splits(span); ++i) {
        items.push_back({s, 0, 1, i, token, kAttentionSplit});
      }
      ++token;
      continue;
    }
    for (int first = 0; first < span.rows; first += tile_tokens) {
      const int rows = std::min(tile_tokens, span.rows - first);
      items.push_back({s, first, rows, -1, -1,
                       static_cast<int64_t>(span.first_position + first + rows) * rows});
    }
  }
  std::sort(items.begin(), items.end(),
            [](const AttentionItem& a, const AttentionItem& b) { return a.cost > b.cost; });
  return token;
}

// Zeros beyond each row's width.
void ClearPadding(const Activations& out, int rows) {
  for (int row = 0; row < rows && out.stride > out.width; ++row) {
    if (out.format == ActivationFormat::kF32) {
      std::fill(out.f32(row) + out.width, out.f32(row) + out.stride, 0.0f);
    } else {
      std::fill(out.q8(row) + out.width / 32, out.q8(row) + out.stride / 32, Q8Block{});
    }
  }
}

}  // namespace

absl::Status Attention(const Table& table, const AttentionParams& p, Stream& stream) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  HEADWAY_ASSIGN_OR_RETURN(CpuWorkspace * workspace, CpuWorkspace::Of(kOp, stream));
  HEADWAY_RETURN_IF_ERROR(workspace->CheckRows(kOp, p.rows));
  HEADWAY_RETURN_IF_ERROR(workspace->CheckHeads(kOp, p.query_heads, p.kv.head_dim));
  int64_t products = 0;
  for (const SpanView& span : p.spans) {
    const int64_t end = static_cast<int64_t>(span.first_position) + span.rows;
    HEADWAY_RETURN_IF_ERROR(workspace->CheckPositions(kOp, end));
    products += 2 * end * span.rows * p.output.width;
  }
  ThreadTeam& team = *stream.team;
  FindRuns(p.kv_head_of_query, workspace->runs());
  const std::vector<HeadRun>& runs = workspace->runs();

  const bool q8 = p.output.format == ActivationFormat::kQ8;
  const bool by_head_q8 = q8 && p.kv.head_dim % 32 == 0;
  Plan plan = {
      .p = p,
      .table = table,
      .workspace = *workspace,
      .kv = KvLayerOf(p.kv),
      .by_head_q8 = by_head_q8,
      .rows = q8 ? workspace->attention_rows() : static_cast<float*>(p.output.data),
      .row_stride = q8 ? p.output.width : p.output.stride,
      .state_stride = StateStride(p.kv.head_dim),
      .max_splits = 0,
  };
  const int cut_tokens = FindItems(plan, team, &plan.max_splits);
  const std::vector<AttentionItem>& items = workspace->items();

  auto unit = [&](int u, int thread) {
    const AttentionItem& item = items[u / runs.size()];
    const HeadRun& run = runs[u % runs.size()];
    const SpanView& span = p.spans[item.span];
    const Scratch& scratch = workspace->scratch(thread);
    const AttentionUnit a = plan.Unit(span, run, item.first, item.rows);
    if (item.split >= 0) {
      float* states =
          plan.States(item.token) +
          (static_cast<int64_t>(item.split) * p.query_heads + run.first) * plan.state_stride;
      table.attend_split(a, item.split, states, plan.state_stride, scratch);
    } else if (item.rows == 1) {
      table.attend_token(a, scratch);
    } else {
      table.attend_rows(a, scratch);
    }
  };
  const int units = static_cast<int>(items.size() * runs.size());
  if (products < kSerialProducts) {
    team.SerialFor(units, unit);
  } else {
    team.OrderedFor(units, unit);
  }

  if (cut_tokens > 0) {
    // So few tokens that the caller merges them faster than it wakes the others.
    team.SerialFor(1, [&](int, int) {
      int token = 0;
      for (const SpanView& span : p.spans) {
        if (span.rows != 1) continue;
        for (const HeadRun& run : runs) {
          table.merge_splits(plan.Unit(span, run, 0, 1), Splits(span),
                             plan.States(token) + run.first * plan.state_stride, plan.state_stride,
                             p.query_heads * plan.state_stride, workspace->scratch(0));
        }
        ++token;
      }
    });
  }
  if (q8 && !by_head_q8) {
    team.ParallelFor(p.rows, [&](int row, int) {
      table.quantise(plan.rows + row * plan.row_stride, p.output.width, p.output.q8(row));
    });
  }
  ClearPadding(p.output, p.rows);
  return absl::OkStatus();
}

}  // namespace headway::kernels::cpu
