#include "runtime/model/forward.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/activations.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/comm/ordered_reduce.h"
#include "runtime/device/float_environment.h"
#include "runtime/device/host_buffer.h"
#include "runtime/model/activation_buffer.h"
#include "runtime/model/batch_rows.h"
#include "runtime/model/logits_output.h"
#include "runtime/model/rope_table.h"

namespace headway {
namespace {

using kernels::ActivationFormat;
using kernels::Activations;
using kernels::ActivationStride;
using kernels::PackedLinear;

constexpr int kMostRows = 1 << 16;
constexpr double kLog2E = 1.4426950408889634;

// How the inputs of each linear of a layer are stored: integers meet quantised weights only.
struct LayerFormats {
  ActivationFormat qkv, attention_output, gate_up, down;
};

// A row-parallel linear's groups, and the exchange of their sums where several ranks share them.
struct Reduction {
  int total = 0;
  int first = 0;
  std::vector<int> bounds;                  // of the local groups, in local inputs
  std::unique_ptr<OrderedReduce> exchange;  // null: this rank owns all groups

  kernels::ReductionGroups groups() const {
    return {.total = total, .first = first, .bounds = bounds};
  }
};

absl::StatusOr<Reduction> MakeReduction(const std::vector<int>& group_offsets, int unit,
                                        std::vector<int> rank_bounds, int rank,
                                        int64_t max_elements, Communicator& comm) {
  Reduction reduction;
  reduction.total = static_cast<int>(group_offsets.size()) - 1;
  reduction.first = rank_bounds[rank];
  for (int group = rank_bounds[rank]; group <= rank_bounds[rank + 1]; ++group) {
    reduction.bounds.push_back((group_offsets[group] - group_offsets[rank_bounds[rank]]) * unit);
  }
  if (comm.size() > 1) {
    HEADWAY_ASSIGN_OR_RETURN(
        reduction.exchange,
        OrderedReduce::Create(comm, std::move(rank_bounds), reduction.total, max_elements));
  }
  return reduction;
}

class CpuForward final : public Forward {
 public:
  CpuForward(const ModelConfig& config, const ShardPlan& plan, const Weights& weights,
             const NumericsOptions& numerics, const ForwardLimits& limits, const kernels::Ops& ops,
             ThreadTeam& team, Communicator& comm)
      : config_(config),
        plan_(plan),
        shard_(plan.ranks[comm.rank()]),
        weights_(weights),
        numerics_(numerics),
        limits_(limits),
        ops_(ops),
        comm_(comm),
        batch_(limits, config.vocabulary),
        logits_(plan, comm),
        hidden_stride_(ActivationStride(config.hidden)),
        query_stride_(ActivationStride(shard_.query_heads() * config.head_dim)),
        query_scale_(static_cast<float>(kLog2E / std::sqrt(static_cast<double>(config.head_dim)))),
        epsilon_(static_cast<float>(config.rms_epsilon)) {
    stream_.team = &team;
  }

  absl::Status Allocate() {
    ChooseFormats();
    const int mlp_columns = shard_.mlp_end - shard_.mlp_begin;
    const int query_width = shard_.query_heads() * config_.head_dim;
    const int64_t rows = limits_.max_rows;
    HEADWAY_ASSIGN_OR_RETURN(
        rope_, RopeTableBuffer::Create(config_.rope, config_.head_dim, limits_.max_positions));
    HEADWAY_ASSIGN_OR_RETURN(residual_,
                             HostBuffer::Allocate(rows * hidden_stride_ * sizeof(float)));
    HEADWAY_ASSIGN_OR_RETURN(queries_, HostBuffer::Allocate(rows * query_stride_ * sizeof(float)));
    HEADWAY_RETURN_IF_ERROR(normed_.Allocate(limits_.max_rows, config_.hidden));
    HEADWAY_RETURN_IF_ERROR(attended_.Allocate(limits_.max_rows, query_width));
    HEADWAY_RETURN_IF_ERROR(gated_.Allocate(limits_.max_rows, mlp_columns));
    HEADWAY_RETURN_IF_ERROR(logits_.Allocate(config_.vocabulary, limits_.max_logit_rows));

    const int64_t reduced = rows * hidden_stride_;
    HEADWAY_ASSIGN_OR_RETURN(
        attention_reduction_,
        MakeReduction(plan_.attention_group_heads, config_.head_dim, plan_.AttentionGroupBounds(),
                      comm_.rank(), reduced, comm_));
    HEADWAY_ASSIGN_OR_RETURN(mlp_reduction_,
                             MakeReduction(plan_.mlp_group_columns, 1, plan_.MlpGroupBounds(),
                                           comm_.rank(), reduced, comm_));
    HEADWAY_ASSIGN_OR_RETURN(
        workspace_,
        ops_.NewWorkspace({.max_rows = limits_.max_rows,
                           .max_positions = limits_.max_positions,
                           .max_width = std::max({config_.hidden, query_width, mlp_columns}),
                           .max_outputs = std::max({config_.hidden, query_width, 2 * mlp_columns}),
                           .query_heads = shard_.query_heads(),
                           .head_dim = config_.head_dim},
                          stream_.team->size()));
    stream_.workspace = workspace_.get();
    return absl::OkStatus();
  }

  absl::Status Run(std::span<const BatchSpan> batch, const PagedKvView& kv,
                   LayerObserver* observer) override {
    HEADWAY_RETURN_IF_ERROR(CheckKv(kv));
    HEADWAY_RETURN_IF_ERROR(batch_.Assign(batch, kv.layers[0].num_blocks));
    const DefaultFloatEnvironment float_environment;
    const absl::Status status = Compute(kv, observer);
    // The other ranks would wait for this one.
    if (!status.ok()) comm_.Abort(std::string(status.message()));
    return status;
  }

  std::span<const float> logits(int i) const override { return logits_.row(i); }
  int logit_rows() const override { return static_cast<int>(batch_.wanted().size()); }
  int64_t kv_projections() const override { return kv_projections_; }
  int64_t attended_keys() const override { return attended_keys_; }
  const ForwardLimits& limits() const override { return limits_; }

 private:
  // The pass.
  absl::Status Compute(const PagedKvView& kv, LayerObserver* observer) {
    HEADWAY_RETURN_IF_ERROR(Embed());
    for (int i = 0; i < config_.layers; ++i) {
      const LayerWeights& layer = weights_.layer(i);
      const LayerFormats& formats = formats_[i];

      Activations input = normed_.As(formats.qkv);
      HEADWAY_RETURN_IF_ERROR(Norm(layer.attention_norm, {}, batch_.rows(), input));
      HEADWAY_RETURN_IF_ERROR(Qkv(layer, input, kv.layers[i]));
      input = attended_.As(formats.attention_output);
      HEADWAY_RETURN_IF_ERROR(Attend(kv.layers[i], input));
      HEADWAY_RETURN_IF_ERROR(AddToResidual(layer.attention_output, layer.attention_output_bias,
                                            attention_reduction_, input));

      input = normed_.As(formats.gate_up);
      HEADWAY_RETURN_IF_ERROR(Norm(layer.mlp_norm, {}, batch_.rows(), input));
      HEADWAY_RETURN_IF_ERROR(GateUp(layer, input, gated_.As(formats.down)));
      input = gated_.As(formats.down);
      HEADWAY_RETURN_IF_ERROR(AddToResidual(layer.down, layer.down_bias, mlp_reduction_, input));

      if (observer != nullptr) {
        observer->OnLayer(i, residual_.As<float>(), hidden_stride_, batch_.rows());
      }
    }
    kv_projections_ += batch_.rows();
    for (const kernels::SpanView& span : batch_.spans()) {
      // Row i of a span meets first_position + i + 1 keys.
      attended_keys_ +=
          int64_t{span.rows} * (span.first_position + 1) + int64_t{span.rows} * (span.rows - 1) / 2;
    }
    return Logits();
  }

  absl::Status Embed() {
    const TensorRef& table = weights_.embedding();
    return ops_.Embedding({.format = table.dtype,
                           .table = table.data,
                           .vocabulary = config_.vocabulary,
                           .width = config_.hidden,
                           .tokens = batch_.tokens(),
                           .output = residual_.As<float>(),
                           .output_stride = hidden_stride_},
                          stream_);
  }

  // Of the residual's rows `row_index`, or of the first `rows`.
  absl::Status Norm(const float* weight, std::span<const int32_t> row_index, int rows,
                    const Activations& output) {
    return ops_.RmsNorm({.input = residual_.As<float>(),
                         .input_stride = hidden_stride_,
                         .row_index = row_index,
                         .rows = rows,
                         .weight = weight,
                         .epsilon = epsilon_,
                         .output = output},
                        stream_);
  }

  absl::Status Qkv(const LayerWeights& layer, const Activations& input,
                   const kernels::KvLayerView& kv) {
    return ops_.Qkv({.input = input,
                     .rows = batch_.rows(),
                     .q = layer.q,
                     .k = layer.k,
                     .v = layer.v,
                     .rope = rope_->view(),
                     .query_scale = query_scale_,
                     .spans = batch_.spans(),
                     .queries = queries_.As<float>(),
                     .query_stride = query_stride_,
                     .kv = kv},
                    stream_);
  }

  absl::Status Attend(const kernels::KvLayerView& kv, const Activations& output) {
    return ops_.Attention({.queries = queries_.As<float>(),
                           .query_stride = query_stride_,
                           .query_heads = shard_.query_heads(),
                           .kv_head_of_query = shard_.kv_head_of_query,
                           .kv = kv,
                           .spans = batch_.spans(),
                           .rows = batch_.rows(),
                           .output = output},
                          stream_);
  }

  absl::Status GateUp(const LayerWeights& layer, const Activations& input,
                      const Activations& output) {
    if (output.width == 0) return absl::OkStatus();  // another rank has this rank's share
    return ops_.GateUp(
        {.input = input, .rows = batch_.rows(), .weight = layer.gate_up, .output = output},
        stream_);
  }

  // residual += input * weight^T + bias, over all ranks' inputs.
  absl::Status AddToResidual(const PackedLinear& weight, const float* bias,
                             const Reduction& reduction, const Activations& input) {
    const int rows = batch_.rows();
    if (reduction.exchange == nullptr) {
      return ops_.RowParallelResidual({.input = input,
                                       .rows = rows,
                                       .weight = weight,
                                       .groups = reduction.groups(),
                                       .residual = residual_.As<float>(),
                                       .residual_stride = hidden_stride_},
                                      stream_);
    }
    OrderedReduce& exchange = *reduction.exchange;
    if (!exchange.local_nodes().empty()) {
      HEADWAY_RETURN_IF_ERROR(
          ops_.RowParallel({.input = input,
                            .rows = rows,
                            .weight = weight,
                            .groups = reduction.groups(),
                            .roots = exchange.root_matrix(0, rows, hidden_stride_),
                            .root_stride = hidden_stride_,
                            .root_matrix_stride = int64_t{rows} * hidden_stride_},
                           stream_));
    }
    return exchange.Reduce(rows, hidden_stride_, bias, residual_.As<float>(), hidden_stride_);
  }

  // Of the wanted rows only.
  absl::Status Logits() {
    const int wanted = logit_rows();
    if (wanted == 0) return absl::OkStatus();
    const PackedLinear& lm_head = weights_.lm_head();
    const Activations input = normed_.As(FormatFor({&lm_head}));
    HEADWAY_RETURN_IF_ERROR(Norm(weights_.final_norm(), batch_.wanted(), wanted, input));
    return logits_.Compute(ops_, stream_, lm_head, input, wanted);
  }

  ActivationFormat FormatFor(std::initializer_list<const PackedLinear*> weights) const {
    const bool quantised = std::all_of(weights.begin(), weights.end(), [](const PackedLinear* w) {
      return IsQuantised(w->format);
    });
    return quantised ? numerics_.activations : ActivationFormat::kF32;
  }

  void ChooseFormats() {
    for (int i = 0; i < config_.layers; ++i) {
      const LayerWeights& layer = weights_.layer(i);
      // An error in a key reaches all later tokens: the measured noise of the logits comes from
      // here more than from the other linears (README.md).
      ActivationFormat qkv = FormatFor({&layer.q, &layer.k, &layer.v});
      if (qkv == ActivationFormat::kQ8) qkv = ActivationFormat::kQ16;
      formats_.push_back({.qkv = qkv,
                          .attention_output = FormatFor({&layer.attention_output}),
                          .gate_up = FormatFor({&layer.gate_up}),
                          .down = FormatFor({&layer.down})});
    }
  }

  // The cache must be this rank's: its layers, its heads, the numerics' dtype.
  absl::Status CheckKv(const PagedKvView& kv) const {
    if (static_cast<int>(kv.layers.size()) != config_.layers) {
      return absl::InvalidArgumentError(absl::StrCat("forward pass: a cache of ", kv.layers.size(),
                                                     " layers; the model has ", config_.layers));
    }
    for (const kernels::KvLayerView& layer : kv.layers) {
      if (layer.dtype != numerics_.kv_dtype || layer.head_dim != config_.head_dim ||
          layer.kv_heads != static_cast<int>(shard_.kv_heads.size()) ||
          layer.num_blocks != kv.layers[0].num_blocks || layer.base == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(
            "forward pass: a cache of ", layer.kv_heads, " heads of ", layer.head_dim, " in ",
            ToAbsl(DTypeName(layer.dtype)), "; wanted ", shard_.kv_heads.size(), " heads of ",
            config_.head_dim, " in ", ToAbsl(DTypeName(numerics_.kv_dtype))));
      }
    }
    return absl::OkStatus();
  }

  const ModelConfig& config_;
  const ShardPlan& plan_;
  const RankShard& shard_;
  const Weights& weights_;
  const NumericsOptions numerics_;
  const ForwardLimits limits_;
  const kernels::Ops& ops_;
  Communicator& comm_;
  kernels::Stream stream_;
  std::unique_ptr<kernels::Workspace> workspace_;

  BatchRows batch_;
  LogitsOutput logits_;
  const int hidden_stride_, query_stride_;
  const float query_scale_;  // carries log2(e): the softmax works in base 2
  const float epsilon_;
  std::vector<LayerFormats> formats_;
  Reduction attention_reduction_, mlp_reduction_;
  std::optional<RopeTableBuffer> rope_;
  int64_t kv_projections_ = 0;
  int64_t attended_keys_ = 0;

  HostBuffer residual_;        // [rows, hidden]
  HostBuffer queries_;         // [rows, local query heads * head_dim]
  ActivationBuffer normed_;    // [rows, hidden]
  ActivationBuffer attended_;  // [rows, local query heads * head_dim]
  ActivationBuffer gated_;     // [rows, local MLP columns]
};

absl::Status CheckLimits(const ModelConfig& config, const ForwardLimits& limits) {
  if (limits.max_rows < 1 || limits.max_rows > kMostRows) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_rows is ", limits.max_rows, "; it must be from 1 to ", kMostRows));
  }
  if (limits.max_logit_rows < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_logit_rows is ", limits.max_logit_rows, "; it must not be negative"));
  }
  if (limits.max_positions < 0 || limits.max_positions > config.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat("max_positions is ", limits.max_positions,
                                                   "; the checkpoint's limit is ",
                                                   config.max_positions));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Forward>> Forward::Create(
    const ModelConfig& config, const ShardPlan& plan, const Weights& weights,
    const NumericsOptions& numerics, const ForwardLimits& limits, const kernels::Ops& ops,
    ThreadTeam& team, Communicator& comm) {
  if (absl::Status status = CheckLimits(config, limits); !status.ok()) {
    return Annotate(status, "forward pass");
  }
  if (IsQuantised(numerics.kv_dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("forward pass: a KV cache in ",
                                                   ToAbsl(DTypeName(numerics.kv_dtype)),
                                                   "; it can be f16, bf16 or f32"));
  }
  if (comm.size() != plan.degree) {
    return absl::InvalidArgumentError(absl::StrCat("forward pass: a communicator of ", comm.size(),
                                                   " ranks for a plan of ", plan.degree));
  }
  ForwardLimits resolved = limits;
  if (resolved.max_positions == 0) resolved.max_positions = config.max_positions;
  resolved.max_logit_rows = std::min(resolved.max_logit_rows, resolved.max_rows);
  auto forward =
      std::make_unique<CpuForward>(config, plan, weights, numerics, resolved, ops, team, comm);
  HEADWAY_RETURN_IF_ERROR(forward->Allocate());
  return forward;
}

}  // namespace headway
