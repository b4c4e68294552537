#include "runtime/model/weights.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "kernels/activations.h"
#include "runtime/base/check.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/device/host_buffer.h"
#include "runtime/model/config_reader.h"
#include "runtime/model/families/family.h"
#include "runtime/tensor/block_formats.h"

namespace headway {
namespace {

// Hands out pieces of one buffer, 64-byte aligned. Without a buffer it only counts, so the same
// code measures a slice, checks its tensors, and then packs it.
class Arena {
 public:
  Arena() = default;
  explicit Arena(const HostBuffer& memory) : base_(memory.data()), capacity_(memory.size()) {}

  // Null while counting.
  std::byte* Take(int64_t bytes) {
    const int64_t at = used_;
    used_ += (bytes + 63) / 64 * 64;
    if (base_ == nullptr) return nullptr;
    HEADWAY_CHECK(used_ <= static_cast<int64_t>(capacity_));
    return base_ + at;
  }
  int64_t used() const { return used_; }

 private:
  std::byte* base_ = nullptr;
  size_t capacity_ = 0;
  int64_t used_ = 0;
};

using RowPointers = std::vector<const std::byte*>;

// Rows `order` of a weight.
RowPointers Rows(const TensorRef& tensor, std::span<const int> order) {
  RowPointers rows;
  rows.reserve(order.size());
  for (const int row : order) rows.push_back(tensor.row(row));
  return rows;
}

std::vector<int> Range(int begin, int end) {
  std::vector<int> range(end - begin);
  std::iota(range.begin(), range.end(), begin);
  return range;
}

// The rows decoded to float32, and pointers to them.
struct DecodedRows {
  std::vector<float> values;
  RowPointers rows;
};

DecodedRows DecodeRows(const TensorRef& tensor, std::span<const int> order) {
  DecodedRows decoded;
  const int64_t width = tensor.columns();
  decoded.values.resize(order.size() * width);
  for (size_t i = 0; i < order.size(); ++i) {
    float* out = decoded.values.data() + i * width;
    DecodeRow(tensor.dtype, tensor.row(order[i]), width, out);
    decoded.rows.push_back(reinterpret_cast<const std::byte*>(out));
  }
  return decoded;
}

// Finds, checks and packs the tensors of one rank's slice.
class SlicePacker {
 public:
  SlicePacker(const Checkpoint& checkpoint, const ModelConfig& config, const TensorNames& names,
              const RankShard& shard, Arena& arena)
      : checkpoint_(checkpoint), config_(config), names_(names), shard_(shard), arena_(arena) {}

  absl::Status Layer(int layer, LayerWeights& out) {
    const auto name = [&](std::string_view tensor) { return names_.Layer(layer, tensor, ""); };
    const std::vector<int> query_rows =
        HeadRows(Range(shard_.query_head_begin, shard_.query_head_end));
    const std::vector<int> key_rows = HeadRows(shard_.kv_heads);
    const std::vector<int> value_rows = HeadRows(shard_.kv_heads, /*permute=*/false);
    const int query_width = config_.query_heads * config_.head_dim;
    const int kv_width = config_.kv_heads * config_.head_dim;
    const bool bias = config_.attention_bias;

    HEADWAY_ASSIGN_OR_RETURN(out.attention_norm, Vector(name(names_.attention_norm)));
    HEADWAY_ASSIGN_OR_RETURN(out.q, Linear(name(names_.q), query_width, query_rows, bias));
    HEADWAY_ASSIGN_OR_RETURN(out.k, Linear(name(names_.k), kv_width, key_rows, bias));
    HEADWAY_ASSIGN_OR_RETURN(out.v, Linear(name(names_.v), kv_width, value_rows, bias));
    HEADWAY_ASSIGN_OR_RETURN(
        out.attention_output,
        LinearOfColumns(name(names_.attention_output), query_width,
                        shard_.query_head_begin * config_.head_dim,
                        shard_.query_head_end * config_.head_dim, config_.attention_output_bias));
    out.attention_output_bias = out.attention_output.bias;
    HEADWAY_ASSIGN_OR_RETURN(out.mlp_norm, Vector(name(names_.mlp_norm)));
    HEADWAY_ASSIGN_OR_RETURN(out.gate_up, GateUp(name(names_.gate), name(names_.up)));
    HEADWAY_ASSIGN_OR_RETURN(
        out.down, LinearOfColumns(name(names_.down), config_.intermediate, shard_.mlp_begin,
                                  shard_.mlp_end, config_.mlp_bias));
    out.down_bias = out.down.bias;
    return absl::OkStatus();
  }

  absl::StatusOr<const float*> FinalNorm() { return Vector(std::string(names_.final_norm)); }

  absl::StatusOr<kernels::PackedLinear> LmHead() {
    const std::string_view name = config_.tied_embedding ? names_.embedding : names_.lm_head;
    return Linear(std::string(name), config_.vocabulary,
                  Range(shard_.vocabulary_begin, shard_.vocabulary_end), /*bias=*/false);
  }

  absl::StatusOr<TensorRef> Embedding() {
    return Weight(std::string(names_.embedding), {config_.vocabulary, config_.hidden});
  }

 private:
  // Rows of the given heads in the order that kernels rotate: dimensions 2i and 2i + 1 are a pair.
  // Files that rotate (i, i + head_dim / 2) are reordered; values, which nothing rotates, are not.
  std::vector<int> HeadRows(std::span<const int> heads, bool permute = true) const {
    const int width = config_.head_dim;
    std::vector<int> rows;
    rows.reserve(heads.size() * width);
    for (const int head : heads) {
      for (int i = 0; i < width; ++i) {
        const bool reorder = permute && !config_.rope_rows_interleaved;
        rows.push_back(head * width + (reorder ? i / 2 + i % 2 * (width / 2) : i));
      }
    }
    return rows;
  }

  absl::StatusOr<TensorRef> Weight(const std::string& name, std::vector<int64_t> shape) const {
    return Checked(name + ".weight", shape);
  }

  absl::StatusOr<TensorRef> Checked(const std::string& name,
                                    const std::vector<int64_t>& shape) const {
    HEADWAY_ASSIGN_OR_RETURN(TensorRef tensor, checkpoint_.Tensor(name));
    if (tensor.shape != shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", name, " has shape ", ShapeText(tensor.shape), "; wanted ", ShapeText(shape)));
    }
    return tensor;
  }

  // A tensor of one dimension, decoded.
  absl::StatusOr<std::vector<float>> Values(const std::string& name, int64_t size) const {
    HEADWAY_ASSIGN_OR_RETURN(const TensorRef tensor, Checked(name, {size}));
    if (IsQuantised(tensor.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", name, " is ", ToAbsl(DTypeName(tensor.dtype)), "; wanted f32, f16 or bf16"));
    }
    std::vector<float> values(size);
    DecodeRow(tensor.dtype, tensor.data, size, values.data());
    return values;
  }

  // Zero-filled to whole tiles.
  const float* Store(std::span<const float> values) {
    const int64_t padded = kernels::ActivationStride(static_cast<int>(values.size()));
    float* out = reinterpret_cast<float*>(arena_.Take(padded * sizeof(float)));
    if (out != nullptr) std::copy(values.begin(), values.end(), out);
    return out;
  }

  absl::StatusOr<const float*> Vector(const std::string& name) {
    HEADWAY_ASSIGN_OR_RETURN(const std::vector<float> values,
                             Values(name + ".weight", config_.hidden));
    return Store(values);
  }

  absl::StatusOr<std::vector<float>> BiasRows(const std::string& name, int outputs,
                                              std::span<const int> order) const {
    HEADWAY_ASSIGN_OR_RETURN(const std::vector<float> values, Values(name + ".bias", outputs));
    std::vector<float> chosen;
    for (const int row : order) chosen.push_back(values[row]);
    return chosen;
  }

  kernels::PackedLinear Pack(DType format, std::span<const std::byte* const> rows, int inputs) {
    kernels::PackedLinear packed = {
        .format = format, .outputs = static_cast<int>(rows.size()), .inputs = inputs};
    if (rows.empty() || inputs == 0) return packed;
    std::byte* out = arena_.Take(kernels::PackedLinearBytes(format, packed.outputs, packed.inputs));
    if (out != nullptr) kernels::PackLinear(format, rows, inputs, out);
    packed.data = out;
    return packed;
  }

  // Column-parallel: rows `order` of a linear of `outputs` outputs.
  absl::StatusOr<kernels::PackedLinear> Linear(const std::string& name, int outputs,
                                               std::span<const int> order, bool bias) {
    HEADWAY_ASSIGN_OR_RETURN(const TensorRef tensor, Weight(name, {outputs, config_.hidden}));
    kernels::PackedLinear packed = Pack(tensor.dtype, Rows(tensor, order), config_.hidden);
    if (bias) {
      HEADWAY_ASSIGN_OR_RETURN(const std::vector<float> values, BiasRows(name, outputs, order));
      packed.bias = Store(values);
    }
    return packed;
  }

  // Row-parallel: inputs [begin, end) of all outputs. The bias is whole on every rank.
  absl::StatusOr<kernels::PackedLinear> LinearOfColumns(const std::string& name, int inputs,
                                                        int begin, int end, bool bias) {
    HEADWAY_ASSIGN_OR_RETURN(const TensorRef tensor, Weight(name, {config_.hidden, inputs}));
    const int block = BlockElements(tensor.dtype);
    if (begin % block != 0 || end % block != 0) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", name, ".weight: inputs ", begin,
                                                     " to ", end, " cut through blocks of ", block,
                                                     "; the shard plan is of another model"));
    }
    RowPointers rows = Rows(tensor, Range(0, config_.hidden));
    for (const std::byte*& row : rows) row += RowBytes(tensor.dtype, begin);
    kernels::PackedLinear packed = Pack(tensor.dtype, rows, end - begin);
    if (bias) {
      HEADWAY_ASSIGN_OR_RETURN(const std::vector<float> values,
                               Values(name + ".bias", config_.hidden));
      packed.bias = Store(values);
    }
    return packed;
  }

  // Both projections as one; as float32 where the file has them in different formats.
  absl::StatusOr<kernels::PackedLinear> GateUp(const std::string& gate_name,
                                               const std::string& up_name) {
    const std::vector<int64_t> shape = {config_.intermediate, config_.hidden};
    HEADWAY_ASSIGN_OR_RETURN(const TensorRef gate, Weight(gate_name, shape));
    HEADWAY_ASSIGN_OR_RETURN(const TensorRef up, Weight(up_name, shape));
    const std::vector<int> order = Range(shard_.mlp_begin, shard_.mlp_end);
    const int columns = static_cast<int>(order.size());
    const bool same = gate.dtype == up.dtype;
    kernels::PackedLinear packed = {.format = same ? gate.dtype : DType::kF32,
                                    .outputs = 2 * columns,
                                    .inputs = config_.hidden};
    if (columns == 0) return packed;
    std::byte* out = arena_.Take(kernels::PackedGateUpBytes(packed.format, columns, packed.inputs));
    if (out != nullptr && same) {
      kernels::PackGateUp(packed.format, Rows(gate, order), Rows(up, order), packed.inputs, out);
    } else if (out != nullptr) {
      kernels::PackGateUp(packed.format, DecodeRows(gate, order).rows, DecodeRows(up, order).rows,
                          packed.inputs, out);
    }
    packed.data = out;
    if (config_.mlp_bias) {
      HEADWAY_ASSIGN_OR_RETURN(const std::vector<float> gate_bias,
                               BiasRows(gate_name, config_.intermediate, order));
      HEADWAY_ASSIGN_OR_RETURN(const std::vector<float> up_bias,
                               BiasRows(up_name, config_.intermediate, order));
      packed.bias = Store(InterleaveGateUp(gate_bias, up_bias));
    }
    return packed;
  }

  // As PackGateUp orders outputs: 16 of each in turn, a last short run filled up with zeros.
  static std::vector<float> InterleaveGateUp(std::span<const float> gate,
                                             std::span<const float> up) {
    constexpr size_t kRun = 16;
    std::vector<float> mixed((gate.size() + kRun - 1) / kRun * 2 * kRun);
    for (size_t i = 0; i < gate.size(); ++i) {
      const size_t at = i / kRun * 2 * kRun + i % kRun;
      mixed[at] = gate[i];
      mixed[at + kRun] = up[i];
    }
    return mixed;
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const TensorNames& names_;
  const RankShard& shard_;
  Arena& arena_;
};

class PackedWeights final : public Weights {
 public:
  const LayerWeights& layer(int i) const override { return layers_[i]; }
  const TensorRef& embedding() const override { return embedding_; }
  const float* final_norm() const override { return final_norm_; }
  const kernels::PackedLinear& lm_head() const override { return lm_head_; }
  int64_t packed_bytes() const override { return packed_bytes_; }

  // Measures (with a counting arena) or packs everything.
  absl::Status Fill(const Checkpoint& checkpoint, const ModelConfig& config,
                    const TensorNames& names, const RankShard& shard, Arena& arena,
                    const std::function<void(int)>& layer_done) {
    SlicePacker packer(checkpoint, config, names, shard, arena);
    if (const std::string more = names.Layer(config.layers, names.attention_norm, ".weight");
        checkpoint.Has(more)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", more, "' is of a layer beyond the ", config.layers,
                       " that the configuration names: one of the two is wrong"));
    }
    layers_.assign(config.layers, {});
    for (int i = 0; i < config.layers; ++i) {
      HEADWAY_RETURN_IF_ERROR(packer.Layer(i, layers_[i]));
      layer_done(i);
    }
    HEADWAY_ASSIGN_OR_RETURN(final_norm_, packer.FinalNorm());
    HEADWAY_ASSIGN_OR_RETURN(lm_head_, packer.LmHead());
    HEADWAY_ASSIGN_OR_RETURN(embedding_, packer.Embedding());
    packed_bytes_ = arena.used();
    return absl::OkStatus();
  }

  void Own(HostBuffer memory) { memory_ = std::move(memory); }

 private:
  HostBuffer memory_;
  std::vector<LayerWeights> layers_;
  const float* final_norm_ = nullptr;
  kernels::PackedLinear lm_head_;
  TensorRef embedding_;
  int64_t packed_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Weights>> Weights::Load(const Checkpoint& checkpoint,
                                                       const ModelConfig& config,
                                                       const ShardPlan& plan, int rank,
                                                       std::function<void(int, int)> progress) {
  if (rank < 0 || rank >= plan.degree) {
    return absl::InvalidArgumentError(
        absl::StrCat("loading weights: rank ", rank, " of ", plan.degree));
  }
  HEADWAY_ASSIGN_OR_RETURN(const Family* family, FindFamily(config.family));
  const TensorNames& names = family->form(checkpoint.kind()).tensors;
  const RankShard& shard = plan.ranks[rank];

  auto weights = std::make_unique<PackedWeights>();
  Arena counting;
  HEADWAY_RETURN_IF_ERROR(weights->Fill(checkpoint, config, names, shard, counting, [](int) {}));
  HEADWAY_ASSIGN_OR_RETURN(HostBuffer memory, HostBuffer::Allocate(counting.used()));
  Arena arena(memory);
  weights->Own(std::move(memory));
  HEADWAY_RETURN_IF_ERROR(weights->Fill(checkpoint, config, names, shard, arena, [&](int layer) {
    // What was packed is not read again: keep this process near the size of its slice.
    checkpoint.DropResidentPages();
    if (progress) progress(layer + 1, config.layers);
  }));
  checkpoint.DropResidentPages();
  return weights;
}

}  // namespace headway
