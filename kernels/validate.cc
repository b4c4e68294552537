#include "kernels/validate.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/tensor/reduction_tree.h"

namespace headway::kernels {
namespace {

template <class... Parts>
absl::Status Invalid(const char* op, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(op, ": ", parts...));
}

absl::string_view Name(DType dtype) { return ToAbsl(DTypeName(dtype)); }

// A count in [least, most].
absl::Status Within(const char* op, const char* what, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) {
    return Invalid(op, what, " is ", value, ", outside [", least, ", ", most, "]");
  }
  return absl::OkStatus();
}

absl::Status AtLeast(const char* op, const char* what, int64_t value, int64_t least) {
  if (value < least) return Invalid(op, what, " is ", value, ", below ", least);
  return absl::OkStatus();
}

absl::Status Present(const char* op, const char* what, const void* pointer) {
  if (pointer == nullptr) return Invalid(op, what, " is null");
  return absl::OkStatus();
}

enum class Planes { kOne, kOneOrTwo };

absl::Status CheckActivations(const char* op, const char* what, const Activations& x, int rows,
                              Planes planes = Planes::kOne) {
  HEADWAY_RETURN_IF_ERROR(AtLeast(op, what, x.width, 1));
  if (planes == Planes::kOne && x.format == ActivationFormat::kQ16) {
    return Invalid(op, what, " is of q16 activations; f32 and q8 are known here");
  }
  if (x.format != ActivationFormat::kF32 && x.width % 32 != 0) {
    return Invalid(op, what, " is ", x.width, " wide, not a multiple of 32 as q8 activations need");
  }
  if (x.stride % 32 != 0 || x.stride < x.width) {
    return Invalid(op, what, " has stride ", x.stride, ", not a multiple of 32 of at least ",
                   x.width);
  }
  if (rows > 0) return Present(op, what, x.data);
  return absl::OkStatus();
}

absl::Status CheckWeight(const char* op, const char* what, const PackedLinear& w,
                         const Activations& x, int outputs_multiple = 1) {
  if (w.outputs < 1) return Invalid(op, what, " has ", w.outputs, " outputs, below 1");
  if (w.outputs % outputs_multiple != 0) {
    return Invalid(op, what, " has ", w.outputs, " outputs, not a multiple of ", outputs_multiple);
  }
  if (w.inputs != x.width) {
    return Invalid(op, what, " takes ", w.inputs, " inputs, but the activations are ", x.width,
                   " wide");
  }
  if (w.inputs % BlockElements(w.format) != 0) {
    return Invalid(op, what, " takes ", w.inputs, " inputs, not a multiple of ",
                   BlockElements(w.format), " as ", Name(w.format), " needs");
  }
  if (x.format != ActivationFormat::kF32 && !IsQuantised(w.format)) {
    return Invalid(op, what, " is ", Name(w.format),
                   ": q8 activations meet quantised weights only");
  }
  return Present(op, what, w.data);
}

absl::Status CheckKv(const char* op, const KvLayerView& kv) {
  if (kv.dtype != DType::kF16 && kv.dtype != DType::kBF16 && kv.dtype != DType::kF32) {
    return Invalid(op, "a KV cache of ", Name(kv.dtype), "; f16, bf16 and f32 are known");
  }
  HEADWAY_RETURN_IF_ERROR(Within(op, "head_dim", kv.head_dim, 1, 1024));
  HEADWAY_RETURN_IF_ERROR(AtLeast(op, "kv_heads", kv.kv_heads, 1));
  HEADWAY_RETURN_IF_ERROR(AtLeast(op, "num_blocks", kv.num_blocks, 1));
  return Present(op, "the KV cache", kv.base);
}

// `from_start`: blocks of all positions from 0 are needed, not only of the rows' own.
absl::Status CheckSpans(const char* op, std::span<const SpanView> spans, int rows,
                        const KvLayerView& kv, int64_t max_positions, bool from_start) {
  int next = 0;
  for (const SpanView& span : spans) {
    if (span.first_row != next || span.rows < 0 || span.rows > rows - next) {
      return Invalid(op, "a span covers rows [", span.first_row, ", ",
                     static_cast<int64_t>(span.first_row) + span.rows, "), not a run from ", next,
                     " within ", rows, " rows");
    }
    next += span.rows;
    if (span.rows == 0) continue;
    HEADWAY_RETURN_IF_ERROR(
        Within(op, "a span's first position", span.first_position, 0, max_positions - span.rows));
    HEADWAY_RETURN_IF_ERROR(Present(op, "a span's block table", span.block_table));
    const int last = (span.first_position + span.rows - 1) / kKvBlockTokens;
    for (int b = from_start ? 0 : span.first_position / kKvBlockTokens; b <= last; ++b) {
      HEADWAY_RETURN_IF_ERROR(Within(op, "a block id", span.block_table[b], 0, kv.num_blocks - 1));
    }
  }
  if (next != rows) return Invalid(op, "the spans cover ", next, " of ", rows, " rows");
  return absl::OkStatus();
}

absl::Status CheckGroups(const char* op, const ReductionGroups& groups, const PackedLinear& w) {
  HEADWAY_RETURN_IF_ERROR(
      Within(op, "the number of reduction groups", groups.total, 1, kMaxReductionGroups));
  const int local = static_cast<int>(groups.bounds.size()) - 1;
  HEADWAY_RETURN_IF_ERROR(Within(op, "the first local group", groups.first, 0, groups.total));
  HEADWAY_RETURN_IF_ERROR(
      Within(op, "the number of local groups", local, 0, groups.total - groups.first));
  if (groups.bounds.front() != 0 || groups.bounds.back() != w.inputs) {
    return Invalid(op, "groups cover inputs [", groups.bounds.front(), ", ", groups.bounds.back(),
                   ") of [0, ", w.inputs, ")");
  }
  for (int g = 0; g < local; ++g) {
    if (groups.bounds[g + 1] < groups.bounds[g]) {
      return Invalid(op, "group ", g, " ends at ", groups.bounds[g + 1], ", before its start ",
                     groups.bounds[g]);
    }
    if (groups.bounds[g] % BlockElements(w.format) != 0) {
      return Invalid(op, "group ", g, " starts at input ", groups.bounds[g],
                     ", within a block of 32 of ", Name(w.format));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const EmbeddingParams& p) {
  constexpr char kOp[] = "embedding";
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "width", p.width, 1));
  if (p.width % BlockElements(p.format) != 0) {
    return Invalid(kOp, "width is ", p.width, ", not a multiple of ", BlockElements(p.format),
                   " as ", Name(p.format), " needs");
  }
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "output_stride", p.output_stride, p.width));
  for (int32_t token : p.tokens) {
    HEADWAY_RETURN_IF_ERROR(
        Within(kOp, "a token id", token, 0, static_cast<int64_t>(p.vocabulary) - 1));
  }
  if (p.tokens.empty()) return absl::OkStatus();
  HEADWAY_RETURN_IF_ERROR(Present(kOp, "table", p.table));
  return Present(kOp, "output", p.output);
}

absl::Status Validate(const RmsNormParams& p) {
  constexpr char kOp[] = "rms_norm";
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "rows", p.rows, 0));
  HEADWAY_RETURN_IF_ERROR(CheckActivations(kOp, "output", p.output, p.rows, Planes::kOneOrTwo));
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "input_stride", p.input_stride, p.output.width));
  if (!p.row_index.empty()) {
    if (static_cast<int>(p.row_index.size()) != p.rows) {
      return Invalid(kOp, "row_index names ", p.row_index.size(), " rows of ", p.rows);
    }
    for (int32_t row : p.row_index) {
      HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "an index of row_index", row, 0));
    }
  }
  if (p.rows == 0) return absl::OkStatus();
  HEADWAY_RETURN_IF_ERROR(Present(kOp, "input", p.input));
  return Present(kOp, "weight", p.weight);
}

absl::Status Validate(const QkvParams& p) {
  constexpr char kOp[] = "qkv";
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "rows", p.rows, 0));
  HEADWAY_RETURN_IF_ERROR(CheckActivations(kOp, "input", p.input, p.rows, Planes::kOneOrTwo));
  HEADWAY_RETURN_IF_ERROR(CheckKv(kOp, p.kv));
  const int head_dim = p.kv.head_dim;
  if (head_dim % 2 != 0) return Invalid(kOp, "head_dim is ", head_dim, ", odd: nothing to rotate");
  HEADWAY_RETURN_IF_ERROR(CheckWeight(kOp, "q", p.q, p.input, head_dim));
  HEADWAY_RETURN_IF_ERROR(CheckWeight(kOp, "k", p.k, p.input));
  HEADWAY_RETURN_IF_ERROR(CheckWeight(kOp, "v", p.v, p.input));
  const int64_t kv_outputs = static_cast<int64_t>(p.kv.kv_heads) * head_dim;
  HEADWAY_RETURN_IF_ERROR(Within(kOp, "k outputs", p.k.outputs, kv_outputs, kv_outputs));
  HEADWAY_RETURN_IF_ERROR(Within(kOp, "v outputs", p.v.outputs, kv_outputs, kv_outputs));
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "query_stride", p.query_stride, p.q.outputs));
  HEADWAY_RETURN_IF_ERROR(
      Within(kOp, "head_dim of the rope table", p.rope.head_dim, head_dim, head_dim));
  HEADWAY_RETURN_IF_ERROR(
      CheckSpans(kOp, p.spans, p.rows, p.kv, p.rope.max_positions, /*from_start=*/false));
  if (p.rows == 0) return absl::OkStatus();
  HEADWAY_RETURN_IF_ERROR(Present(kOp, "the rope table", p.rope.data));
  return Present(kOp, "queries", p.queries);
}

absl::Status Validate(const AttentionParams& p) {
  constexpr char kOp[] = "attention";
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "rows", p.rows, 0));
  HEADWAY_RETURN_IF_ERROR(CheckKv(kOp, p.kv));
  HEADWAY_RETURN_IF_ERROR(Within(kOp, "query_heads", p.query_heads, 1, 1024));
  HEADWAY_RETURN_IF_ERROR(CheckActivations(kOp, "output", p.output, p.rows));
  const int64_t width = static_cast<int64_t>(p.query_heads) * p.kv.head_dim;
  HEADWAY_RETURN_IF_ERROR(Within(kOp, "width of the output", p.output.width, width, width));
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "query_stride", p.query_stride, width));
  HEADWAY_RETURN_IF_ERROR(Within(kOp, "number of heads in kv_head_of_query",
                                 static_cast<int64_t>(p.kv_head_of_query.size()), p.query_heads,
                                 p.query_heads));
  for (int h = 0; h < p.query_heads; ++h) {
    HEADWAY_RETURN_IF_ERROR(Within(kOp, "an entry of kv_head_of_query", p.kv_head_of_query[h],
                                   h == 0 ? 0 : p.kv_head_of_query[h - 1], p.kv.kv_heads - 1));
  }
  HEADWAY_RETURN_IF_ERROR(
      CheckSpans(kOp, p.spans, p.rows, p.kv, int64_t{1} << 24, /*from_start=*/true));
  if (p.rows == 0) return absl::OkStatus();
  return Present(kOp, "queries", p.queries);
}

absl::Status Validate(const RowParallelParams& p) {
  constexpr char kOp[] = "row_parallel";
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "rows", p.rows, 0));
  if (p.groups.bounds.size() <= 1) return absl::OkStatus();  // nothing is local
  HEADWAY_RETURN_IF_ERROR(CheckActivations(kOp, "input", p.input, p.rows));
  HEADWAY_RETURN_IF_ERROR(CheckWeight(kOp, "weight", p.weight, p.input));
  HEADWAY_RETURN_IF_ERROR(CheckGroups(kOp, p.groups, p.weight));
  if (p.root_stride % 32 != 0 || p.root_stride < p.weight.outputs) {
    return Invalid(kOp, "root_stride is ", p.root_stride, ", not a multiple of 32 of at least ",
                   p.weight.outputs);
  }
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "root_matrix_stride", p.root_matrix_stride, 0));
  if (p.rows == 0) return absl::OkStatus();
  return Present(kOp, "roots", p.roots);
}

absl::Status Validate(const RowParallelResidualParams& p) {
  constexpr char kOp[] = "row_parallel_residual";
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "rows", p.rows, 0));
  HEADWAY_RETURN_IF_ERROR(CheckActivations(kOp, "input", p.input, p.rows));
  HEADWAY_RETURN_IF_ERROR(CheckWeight(kOp, "weight", p.weight, p.input));
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "number of bounds of the groups",
                                  static_cast<int64_t>(p.groups.bounds.size()), 1));
  HEADWAY_RETURN_IF_ERROR(CheckGroups(kOp, p.groups, p.weight));
  const int64_t local = static_cast<int64_t>(p.groups.bounds.size()) - 1;
  if (local != p.groups.total) {
    return Invalid(kOp, "holds ", local, " of ", p.groups.total, " reduction groups, not all");
  }
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "residual_stride", p.residual_stride, p.weight.outputs));
  if (p.rows == 0) return absl::OkStatus();
  return Present(kOp, "residual", p.residual);
}

absl::Status Validate(const GateUpParams& p) {
  constexpr char kOp[] = "gate_up";
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "rows", p.rows, 0));
  HEADWAY_RETURN_IF_ERROR(CheckActivations(kOp, "input", p.input, p.rows, Planes::kOneOrTwo));
  HEADWAY_RETURN_IF_ERROR(CheckWeight(kOp, "weight", p.weight, p.input, 2));
  HEADWAY_RETURN_IF_ERROR(CheckActivations(kOp, "output", p.output, p.rows));
  return Within(kOp, "width of the output", p.output.width, p.weight.outputs / 2,
                p.weight.outputs / 2);
}

absl::Status Validate(const LogitsParams& p) {
  constexpr char kOp[] = "logits";
  HEADWAY_RETURN_IF_ERROR(AtLeast(kOp, "rows", p.rows, 0));
  HEADWAY_RETURN_IF_ERROR(CheckActivations(kOp, "input", p.input, p.rows, Planes::kOneOrTwo));
  HEADWAY_RETURN_IF_ERROR(CheckWeight(kOp, "weight", p.weight, p.input));
  if (p.stride % 32 != 0 || p.stride < p.weight.outputs) {
    return Invalid(kOp, "stride is ", p.stride, ", not a multiple of 32 of at least ",
                   p.weight.outputs);
  }
  if (p.rows == 0) return absl::OkStatus();
  return Present(kOp, "logits", p.logits);
}

}  // namespace headway::kernels
