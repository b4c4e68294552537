#ifndef HEADWAY_KERNELS_PACKED_LAYOUT_H_
#define HEADWAY_KERNELS_PACKED_LAYOUT_H_

// How PackLinear lays weights out. Constants only: this header is compiled with the flags of
// several processors.
//
// A tile is 32 neighbouring outputs, over all inputs: one stream for the prefetcher. Tiles follow
// each other; the last is filled up with zeros. Within a tile, blocks of inputs follow each other,
// each with the same bytes as its 32 rows have in the checkpoint, in another order:
//
//   q4_1  f16 scale[32] | f16 minimum[32] | nibbles
//   q4_0  f16 scale[32] | nibbles
//     nibbles: 2 halves (16 outputs each) x 4 vectors of 64 bytes; byte 4r + j of vector v of half
//     h holds input 4v + j (low nibble) and 16 + 4v + j (high nibble) of output 16h + r
//   q8_0  f16 scale[32] | 8 x 2 vectors of 64 bytes; byte 4r + j of vector (v, h) holds input
//     4v + j of output 16h + r, plus 128
//   f32, f16, bf16  value[32], a block being one input
//
// 64 bytes hold four consecutive inputs of 16 outputs, so that one four-way dot instruction serves
// 16 outputs with one broadcast of four activations.
namespace headway::kernels {

inline constexpr int kTileOutputs = 32;
inline constexpr int kHalfTile = 16;

inline constexpr int kQ41BlockBytes = 640;
inline constexpr int kQ41NibblesAt = 128;
inline constexpr int kQ40BlockBytes = 576;
inline constexpr int kQ40NibblesAt = 64;
inline constexpr int kQ80BlockBytes = 1088;
inline constexpr int kQ80BytesAt = 64;

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_PACKED_LAYOUT_H_
