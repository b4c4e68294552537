#include <algorithm>
#include <cstring>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/workspace.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"

namespace headway::kernels::cpu {
namespace {

// Multiplications below which waking the team costs more than it gains.
constexpr int64_t kSerialProducts = 30000;

// Tiles times rows as units for the team: a unit is one tile and all rows, or, where there are few
// tiles a thread and many rows, a run of the rows.
struct Units {
  Units(const ThreadTeam& team, int tiles, int rows) : tiles(tiles), rows(rows) {
    constexpr int kLeastRows = 96;
    chunk = rows;
    const int wanted = 4 * team.size();
    if (team.size() > 1 && tiles < wanted && rows >= 2 * kLeastRows) {
      const int chunks = std::min((wanted + tiles - 1) / tiles, rows / kLeastRows);
      chunk = ((rows + chunks - 1) / chunks + 11) / 12 * 12;
    }
    chunks = rows == 0 ? 0 : (rows + chunk - 1) / chunk;
  }

  // Calls unit(tile, first row, rows, thread) for each.
  template <class Unit>
  void Run(ThreadTeam& team, const PackedLinear& w, Unit unit) const {
    auto one = [&](int u, int thread) {
      const int first = u / tiles * chunk;
      unit(u % tiles, first, std::min(chunk, rows - first), thread);
    };
    if (static_cast<int64_t>(rows) * w.outputs * w.inputs < kSerialProducts) {
      team.SerialFor(tiles * chunks, one);
    } else {
      team.ParallelFor(tiles * chunks, one);
    }
  }

  int tiles, rows, chunk, chunks;
};

int TilesOf(int outputs) { return (outputs + kTileOutputs - 1) / kTileOutputs; }

TileInput InputOf(const PackedLinear& w, const Activations& x, int tile, int first_row, int rows,
                  const int* bounds, int groups) {
  const int planes = Q8Planes(x.format);
  const int64_t tile_bytes = kTileOutputs * RowBytes(w.format, w.inputs);
  return {
      .tile = reinterpret_cast<const uint8_t*>(w.data) + tile * tile_bytes,
      .format = w.format,
      .planes = planes,
      .x = planes > 0 ? static_cast<const void*>(x.q8(first_row)) : x.f32(first_row),
      .stride = planes > 0 ? x.stride / 32 : x.stride,
      .rows = rows,
      .bounds = bounds,
      .groups = groups,
      .bias = w.bias == nullptr ? nullptr : w.bias + tile * kTileOutputs,
  };
}

int CountOf(int outputs, int tile) { return std::min(kTileOutputs, outputs - tile * kTileOutputs); }

absl::StatusOr<CpuWorkspace*> WorkspaceFor(const char* op, const Stream& stream, int rows,
                                           int width) {
  HEADWAY_ASSIGN_OR_RETURN(CpuWorkspace * workspace, CpuWorkspace::Of(op, stream));
  HEADWAY_RETURN_IF_ERROR(workspace->CheckRows(op, rows));
  HEADWAY_RETURN_IF_ERROR(workspace->CheckWidth(op, width));
  return workspace;
}

// The largest run of neighbouring groups from `first` on that one node of the tree covers, within
// [first, end): what MaximalSubtrees gives, without its memory.
int EndOfSubtree(int first, int end, int total) {
  int size = 1;
  while (size < total && first % (2 * size) == 0 && std::min(first + 2 * size, total) <= end) {
    size *= 2;
  }
  return std::min(first + size, total);
}

}  // namespace

absl::Status RowParallel(const Table& table, const RowParallelParams& p, Stream& stream) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  const int local = static_cast<int>(p.groups.bounds.size()) - 1;
  if (local <= 0) return absl::OkStatus();
  HEADWAY_ASSIGN_OR_RETURN(CpuWorkspace * workspace,
                           WorkspaceFor("row_parallel", stream, p.rows, p.input.width));
  PackedLinear weight = p.weight;
  weight.bias = nullptr;
  const Units units(*stream.team, TilesOf(weight.outputs), p.rows);
  units.Run(*stream.team, weight, [&](int tile, int first_row, int rows, int thread) {
    float* root = p.roots + static_cast<int64_t>(first_row) * p.root_stride + tile * kTileOutputs;
    for (int g = 0; g < local; root += p.root_matrix_stride) {
      const int end =
          EndOfSubtree(p.groups.first + g, p.groups.first + local, p.groups.total) - p.groups.first;
      table.store_tile({.in = InputOf(weight, p.input, tile, first_row, rows,
                                      p.groups.bounds.data() + g, end - g),
                        .count = CountOf(weight.outputs, tile),
                        .out = root,
                        .stride = p.root_stride},
                       workspace->scratch(thread));
      g = end;
    }
  });
  return absl::OkStatus();
}

absl::Status RowParallelResidual(const Table& table, const RowParallelResidualParams& p,
                                 Stream& stream) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  HEADWAY_ASSIGN_OR_RETURN(CpuWorkspace * workspace,
                           WorkspaceFor("row_parallel_residual", stream, p.rows, p.input.width));
  const Units units(*stream.team, TilesOf(p.weight.outputs), p.rows);
  units.Run(*stream.team, p.weight, [&](int tile, int first_row, int rows, int thread) {
    table.residual_tile(
        {.in = InputOf(p.weight, p.input, tile, first_row, rows, p.groups.bounds.data(),
                       p.groups.total),
         .count = CountOf(p.weight.outputs, tile),
         .residual =
             p.residual + static_cast<int64_t>(first_row) * p.residual_stride + tile * kTileOutputs,
         .stride = p.residual_stride},
        workspace->scratch(thread));
  });
  return absl::OkStatus();
}

absl::Status GateUp(const Table& table, const GateUpParams& p, Stream& stream) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  HEADWAY_ASSIGN_OR_RETURN(CpuWorkspace * workspace,
                           WorkspaceFor("gate_up", stream, p.rows, p.input.width));
  const int columns = p.weight.outputs / 2;
  const bool q8 = p.output.format == ActivationFormat::kQ8;
  const int whole_k[2] = {0, p.weight.inputs};
  // One unit gives 32 columns: two tiles.
  const Units units(*stream.team, TilesOf(columns), p.rows);
  units.Run(*stream.team, p.weight, [&](int unit, int first_row, int rows, int thread) {
    const int count = CountOf(columns, unit);
    GateUpTiles t = {
        .in = {InputOf(p.weight, p.input, 2 * unit, first_row, rows, whole_k, 1),
               InputOf(p.weight, p.input, 2 * unit + 1, first_row, rows, whole_k, 1)},
        .count = count,
        .q8 = q8,
        .output = q8 ? static_cast<void*>(p.output.q8(first_row) + unit)
                     : p.output.f32(first_row) + unit * 32,
        .stride = q8 ? p.output.stride / 32 : p.output.stride,
    };
    if (count <= kHalfTile) t.in[1].tile = nullptr;
    table.gate_up_tiles(t, workspace->scratch(thread));
  });
  // A stride wider than it must be: the rest is zero as well.
  const int written = ActivationStride(columns);
  for (int row = 0; row < p.rows && p.output.stride > written; ++row) {
    if (q8) {
      std::memset(p.output.q8(row) + written / 32, 0,
                  sizeof(Q8Block) * static_cast<size_t>((p.output.stride - written) / 32));
    } else {
      std::fill(p.output.f32(row) + written, p.output.f32(row) + p.output.stride, 0.0f);
    }
  }
  return absl::OkStatus();
}

absl::Status Logits(const Table& table, const LogitsParams& p, Stream& stream) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  HEADWAY_ASSIGN_OR_RETURN(CpuWorkspace * workspace,
                           WorkspaceFor("logits", stream, p.rows, p.input.width));
  const int whole_k[2] = {0, p.weight.inputs};
  const Units units(*stream.team, TilesOf(p.weight.outputs), p.rows);
  units.Run(*stream.team, p.weight, [&](int tile, int first_row, int rows, int thread) {
    table.store_tile({.in = InputOf(p.weight, p.input, tile, first_row, rows, whole_k, 1),
                      .count = CountOf(p.weight.outputs, tile),
                      .out = p.logits + first_row * p.stride + tile * kTileOutputs,
                      .stride = p.stride},
                     workspace->scratch(thread));
  });
  return absl::OkStatus();
}

absl::Status Qkv(const Table& table, const QkvParams& p, Stream& stream) {
  HEADWAY_RETURN_IF_ERROR(Validate(p));
  HEADWAY_ASSIGN_OR_RETURN(CpuWorkspace * workspace,
                           WorkspaceFor("qkv", stream, p.rows, p.input.width));
  RowSlot* slots = workspace->slots();
  for (const SpanView& span : p.spans) {
    for (int i = 0; i < span.rows; ++i) {
      const int position = span.first_position + i;
      slots[span.first_row + i] = {position, span.block_table[position / kKvBlockTokens]};
    }
  }
  const KvLayer kv = KvLayerOf(p.kv);
  const int whole_k[2] = {0, p.input.width};
  const int q_tiles = TilesOf(p.q.outputs);
  const int k_tiles = TilesOf(p.k.outputs);
  // Queries, keys, values: the tiles of three matrices as one row of units.
  PackedLinear all = p.q;
  all.outputs = p.q.outputs + p.k.outputs + p.v.outputs;
  const Units units(*stream.team, q_tiles + 2 * k_tiles, p.rows);
  units.Run(*stream.team, all, [&](int tile, int first_row, int rows, int thread) {
    using Part = QkvTile::Part;
    Part part = Part::kQuery;
    const PackedLinear* w = &p.q;
    if (tile >= q_tiles + k_tiles) {
      part = Part::kValue;
      w = &p.v;
      tile -= q_tiles + k_tiles;
    } else if (tile >= q_tiles) {
      part = Part::kKey;
      w = &p.k;
      tile -= q_tiles;
    }
    table.qkv_tile({.in = InputOf(*w, p.input, tile, first_row, rows, whole_k, 1),
                    .part = part,
                    .first = tile * kTileOutputs,
                    .count = CountOf(w->outputs, tile),
                    .slots = slots + first_row,
                    .rope = p.rope.data,
                    .query_scale = p.query_scale,
                    .queries = p.queries + static_cast<int64_t>(first_row) * p.query_stride,
                    .query_stride = p.query_stride,
                    .kv = kv},
                   workspace->scratch(thread));
  });
  return absl::OkStatus();
}

}  // namespace headway::kernels::cpu
