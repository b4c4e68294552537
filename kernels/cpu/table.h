#ifndef HEADWAY_KERNELS_CPU_TABLE_H_
#define HEADWAY_KERNELS_CPU_TABLE_H_

#include <cstdint>

#include "kernels/activations.h"
#include "kernels/kv_layer_view.h"
#include "kernels/packed_layout.h"
#include "runtime/tensor/dtype.h"

// What the ops ask of one processor: the work of one thread on one unit. Each table (AVX-512, AVX2,
// scalar) is filled from the same sources (*_impl.h), written on 16 lanes, so all do the same
// operations in the same order.
//
// This header is compiled with the flags of several processors: plain structs and pointers, and
// nobody there calls the inline functions of the headers above.
namespace headway::kernels::cpu {

// Query rows (tokens times heads) that an attention tile holds at most.
constexpr int kTileRows = 96;
// Query heads of one KV head that a unit of attention takes at most.
constexpr int kMaxHeadRun = 16;

// One thread's scratch memory; every pointer 64-byte aligned.
struct Scratch {
  uint8_t* weights;  // an unpacked tile: [max_width][32] floats
  float* sums;       // [max_rows][32]: a tile's results
  float* planes;     // [max_rows][2][32]: the same of two planes
  float* columns;    // [max_rows][32]: a gate-up unit's results
  // Attention, one split of one KV head at a time. `padded` is head_dim rounded up to 16.
  float* keys;     // [16 blocks][head_dim][16]
  float* values;   // [256][padded]
  float* queries;  // [kTileRows][head_dim]
  float* scores;   // [kTileRows][256]
  float* split;    // [kTileRows] states of the split
  float* merged;   // [kTileRows] states of the splits so far
};

// The softmax state of one query row: maximum, sum, unused up to 16 floats, then [padded] of the
// weighted values.
constexpr int kStateMax = 0;
constexpr int kStateSum = 1;
constexpr int kStateOut = 16;

struct NormRow {
  const float* input;   // [width]
  const float* weight;  // [width]
  int width;
  float epsilon;
  int planes;    // of Q8Blocks, 0: floats
  void* output;  // float [stride] or Q8Block [planes][stride / 32]
  int stride;
};

// One tile of weights, all rows of the batch.
struct TileInput {
  const uint8_t* tile;  // from input 0 on
  DType format;
  int planes;      // of the activations' Q8Blocks, 0: floats
  const void* x;   // float or Q8Block, row 0
  int64_t stride;  // floats between rows, or Q8Blocks between planes
  int rows;
  // Group g of the tree takes inputs [bounds[g], bounds[g + 1]).
  const int* bounds;
  int groups;
  const float* bias;  // of this tile's 32 outputs, or null
};

// Sums (and bias) to [rows][32], rows `stride` floats apart. Columns from `count` on get zeros.
struct StoreTile {
  TileInput in;
  int count;
  float* out;
  int64_t stride;
};

// residual[row][0 .. count) += sum (+ bias).
struct ResidualTile {
  TileInput in;
  int count;
  float* residual;
  int64_t stride;
};

// Two tiles (16 gate and 16 up outputs each) to 32 columns of the next linear's input.
struct GateUpTiles {
  TileInput in[2];  // the second has no tile where `count` is at most 16
  int count;        // columns, at most 32
  bool q8;
  void* output;    // first column: float or Q8Block, row 0
  int64_t stride;  // floats or Q8Blocks between rows
};

// Where a row's key and value go.
struct RowSlot {
  int position;
  int block;
};

struct KvLayer {
  DType dtype;
  int head_dim;
  std::byte* base;
  int64_t head_stride;   // bytes from one head's blocks to the next's
  int64_t block_stride;  // bytes of a (head, block): K, then V
  int64_t value_offset;  // bytes from K to V
};

struct QkvTile {
  TileInput in;
  enum class Part : uint8_t { kQuery, kKey, kValue } part;
  int first;             // the tile's first output within the part
  int count;             // outputs of the tile, at most 32
  const RowSlot* slots;  // [rows]
  const float* rope;     // [positions][2][head_dim]
  float query_scale;
  float* queries;  // row 0, output 0
  int64_t query_stride;
  KvLayer kv;
};

// A unit of attention: neighbouring rows of one sequence, a run of query heads of one KV head.
struct AttentionUnit {
  const float* queries;  // first row, first head of the run
  int64_t query_stride;
  int heads;  // at most kMaxHeadRun
  int rows;   // times heads: at most kTileRows
  int first_position;
  const int32_t* block_table;
  KvLayer kv;
  int kv_head;
  // Results of the first row and head: float, or Q8Block (head_dim a multiple of 32).
  bool q8;
  void* output;
  int64_t output_stride;  // floats or Q8Blocks between rows
};

struct Table {
  const char* name;
  void (*norm)(const NormRow&);
  // One row as q8 blocks; width a multiple of 32.
  void (*quantise)(const float* x, int width, Q8Block* out);
  void (*store_tile)(const StoreTile&, const Scratch&);
  void (*residual_tile)(const ResidualTile&, const Scratch&);
  void (*gate_up_tiles)(const GateUpTiles&, const Scratch&);
  void (*qkv_tile)(const QkvTile&, const Scratch&);
  // All splits of a unit of any number of rows, results included.
  void (*attend_rows)(const AttentionUnit&, const Scratch&);
  // The same for a unit of one row, straight from the cache.
  void (*attend_token)(const AttentionUnit&, const Scratch&);
  // One split of a unit of one row; `states`: [heads], `state_stride` floats apart.
  void (*attend_split)(const AttentionUnit&, int split, float* states, int64_t state_stride,
                       const Scratch&);
  // Merges the splits' states of that unit, `split_stride` floats apart, and writes the results.
  void (*merge_splits)(const AttentionUnit&, int splits, const float* states, int64_t state_stride,
                       int64_t split_stride, const Scratch&);
};

extern const Table kAvx512VnniTable;
extern const Table kAvx512Table;
extern const Table kAvx2Table;
extern const Table kSse42Table;
extern const Table kScalarTable;

}  // namespace headway::kernels::cpu

#endif  // HEADWAY_KERNELS_CPU_TABLE_H_
