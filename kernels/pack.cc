#include "kernels/pack.h"

#include <cstring>
#include <vector>

#include "kernels/linear.h"
#include "kernels/packed_layout.h"
#include "runtime/base/check.h"

namespace headway::kernels {
namespace {

static_assert(kQ41BlockBytes == kTileOutputs * BlockBytes(DType::kQ4_1));
static_assert(kQ40BlockBytes == kTileOutputs * BlockBytes(DType::kQ4_0));
static_assert(kQ80BlockBytes == kTileOutputs * BlockBytes(DType::kQ8_0));

// Calls copy(offset in the tile's block, offset in the row's block, bytes, flip) for each piece of
// one row's block: both directions of packing walk the same pieces. `flip`: 8-bit values whose sign
// bit is turned over.
template <class Copy>
void EachPiece(DType format, int row, Copy copy) {
  const int half = row / kHalfTile;
  const int lane = row % kHalfTile;
  switch (format) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16: {
      const int bytes = BlockBytes(format);
      copy(row * bytes, 0, bytes, false);
      break;
    }
    case DType::kQ4_1:
      copy(2 * row, 0, 2, false);
      copy(64 + 2 * row, 2, 2, false);
      for (int v = 0; v < 4; ++v) {
        copy(kQ41NibblesAt + 256 * half + 64 * v + 4 * lane, 4 + 4 * v, 4, false);
      }
      break;
    case DType::kQ4_0:
      copy(2 * row, 0, 2, false);
      for (int v = 0; v < 4; ++v) {
        copy(kQ40NibblesAt + 256 * half + 64 * v + 4 * lane, 2 + 4 * v, 4, false);
      }
      break;
    case DType::kQ8_0:
      copy(2 * row, 0, 2, false);
      for (int v = 0; v < 8; ++v) {
        copy(kQ80BytesAt + 128 * v + 64 * half + 4 * lane, 2 + 4 * v, 4, true);
      }
      break;
  }
}

void CopyPiece(std::byte* to, const std::byte* from, int bytes, bool flip) {
  std::memcpy(to, from, bytes);
  if (flip) {
    for (int i = 0; i < bytes; ++i) to[i] ^= std::byte{0x80};
  }
}

// rows[i] == nullptr stands for a row of zeros.
void PackTile(DType format, std::span<const std::byte* const> rows, int inputs, std::byte* out) {
  const int blocks = inputs / BlockElements(format);
  const int block_bytes = BlockBytes(format);
  // Zero weights, not zero bytes: 8-bit weights are stored plus 128.
  static constexpr std::byte kZeros[64] = {};
  for (int b = 0; b < blocks; ++b, out += kTileOutputs * block_bytes) {
    for (int r = 0; r < kTileOutputs; ++r) {
      const bool there = r < static_cast<int>(rows.size()) && rows[r] != nullptr;
      const std::byte* block = there ? rows[r] + static_cast<int64_t>(b) * block_bytes : kZeros;
      EachPiece(format, r, [&](int tile_at, int row_at, int bytes, bool flip) {
        CopyPiece(out + tile_at, block + row_at, bytes, flip);
      });
    }
  }
}

int64_t TileBytes(DType format, int inputs) { return kTileOutputs * RowBytes(format, inputs); }

int64_t RoundUpDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

int64_t PackedLinearBytes(DType format, int outputs, int inputs) {
  return RoundUpDivide(outputs, kTileOutputs) * TileBytes(format, inputs);
}

void PackLinear(DType format, std::span<const std::byte* const> rows, int inputs, std::byte* out) {
  HEADWAY_CHECK(inputs % BlockElements(format) == 0);
  for (size_t first = 0; first < rows.size(); first += kTileOutputs) {
    PackTile(format, rows.subspan(first, std::min<size_t>(kTileOutputs, rows.size() - first)),
             inputs, out);
    out += TileBytes(format, inputs);
  }
}

int64_t PackedGateUpBytes(DType format, int outputs, int inputs) {
  return RoundUpDivide(outputs, kHalfTile) * TileBytes(format, inputs);
}

void PackGateUp(DType format, std::span<const std::byte* const> gate_rows,
                std::span<const std::byte* const> up_rows, int inputs, std::byte* out) {
  HEADWAY_CHECK(inputs % BlockElements(format) == 0);
  HEADWAY_CHECK(gate_rows.size() == up_rows.size());
  for (size_t first = 0; first < gate_rows.size(); first += kHalfTile) {
    const std::byte* rows[kTileOutputs] = {};
    for (size_t i = 0; i < kHalfTile && first + i < gate_rows.size(); ++i) {
      rows[i] = gate_rows[first + i];
      rows[kHalfTile + i] = up_rows[first + i];
    }
    PackTile(format, rows, inputs, out);
    out += TileBytes(format, inputs);
  }
}

void UnpackBlock(DType format, const std::byte* packed, int inputs, int packed_row, int block,
                 std::byte* out) {
  const std::byte* tile_block = packed + packed_row / kTileOutputs * TileBytes(format, inputs) +
                                static_cast<int64_t>(block) * kTileOutputs * BlockBytes(format);
  EachPiece(format, packed_row % kTileOutputs, [&](int tile_at, int row_at, int bytes, bool flip) {
    CopyPiece(out + row_at, tile_block + tile_at, bytes, flip);
  });
}

}  // namespace headway::kernels
