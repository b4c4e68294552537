#ifndef HEADWAY_KERNELS_ATTENTION_H_
#define HEADWAY_KERNELS_ATTENTION_H_

#include <cstdint>
#include <span>

#include "kernels/activations.h"
#include "kernels/kv_layer_view.h"

namespace headway::kernels {

// Causal attention over the paged cache. For one query row, on every path, batch and processor:
//   score of a key = fma(query[d], key[d], score) over head_dim ascending, from 0 (queries carry
//     scale and log2 e)
//   per split of 256 positions aligned to 0: maximum of the scores; p = 2^(score - maximum);
//     lane[position mod 16] += p ascending, from 0, then the tree of 16 lanes (norm.h);
//     out = fma(p, value, out) over positions ascending, from 0, then + 0 (no zero is negative)
//   splits merge in ascending order, the first being copied: m = larger maximum;
//     a = 2^(max - m), b = 2^(max of split - m); sum = sum * a + sum of split * b;
//     out = out * a + out of split * b, each operation rounded by itself
//   result = out / sum.
// A key after the query has p = 0, and adding it changes nothing, so a path may compute or skip it.
struct AttentionParams {
  const float* queries = nullptr;  // [rows, query_heads * head_dim]
  int query_stride = 0;            // floats between rows, at least query_heads * head_dim
  int query_heads = 0;             // local
  // [query_heads]. Local KV head of each local query head, ascending, e.g. {0,0,0,1,1}: runs may be
  // uneven.
  std::span<const int> kv_head_of_query;
  KvLayerView kv;
  std::span<const SpanView>
      spans;  // cover rows in order; keys up to each row's own position are in the cache
  int rows = 0;
  Activations output;  // width = query_heads * head_dim (kQ8: a multiple of 32)
};

}  // namespace headway::kernels

#endif  // HEADWAY_KERNELS_ATTENTION_H_
