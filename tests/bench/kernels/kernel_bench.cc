// Times the kernels in the order of a whole forward pass, on random weights of a given shape: what
// the arithmetic of a model can reach on this machine, without checkpoint, engine or network.
//
//   kernel_bench --prefill 512                     one sequence's prompt, in chunks of 512
//   kernel_bench --decode 64 --batch 16 --context 64
//   kernel_bench --help                            shapes (default: a 135M llama), threads, tables
//
// Prints the best and the median of the repetitions, and each op's share of the median's time.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "kernels/ops.h"
#include "runtime/base/check.h"
#include "runtime/device/host_buffer.h"

namespace headway::kernels {
namespace {

struct Shape {
  int layers = 30;
  int hidden = 576;
  int query_heads = 9;
  int kv_heads = 3;
  int head_dim = 64;
  int intermediate = 1536;
  int vocabulary = 49152;
  DType weights = DType::kQ4_1;
  DType lm_head = DType::kQ8_0;
  DType kv = DType::kF16;
  ActivationFormat activations = ActivationFormat::kQ8;
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

HostBuffer Take(int64_t bytes) {
  absl::StatusOr<HostBuffer> buffer = HostBuffer::Allocate(bytes);
  HEADWAY_CHECK(buffer.ok());
  return *std::move(buffer);
}

// Any bits make integers; scales and floats are kept small.
void FillWeights(DType format, std::byte* row, int64_t bytes, uint32_t& state) {
  const int block = BlockBytes(format);
  for (int64_t at = 0; at < bytes; at += block) {
    for (int i = 0; i < block; ++i) {
      state = state * 1664525u + 1013904223u;
      row[at + i] = static_cast<std::byte>(state >> 24);
    }
    if (format == DType::kF32 || format == DType::kBF16) {
      row[at + block - 1] = std::byte{0x3c};  // about 0.01
    } else {
      row[at + 1] = std::byte{0x20};  // the f16 scale or value: about 0.01
      if (format == DType::kQ4_1) row[at + 3] = std::byte{0xa4};
    }
  }
}

class Pass {
 public:
  Pass(const Shape& shape, const Ops& ops, int threads, int max_rows, int sequences, int positions)
      : s_(shape), ops_(ops), team_(threads), positions_(positions) {
    auto workspace = ops.NewWorkspace({.max_rows = max_rows,
                                       .max_positions = positions,
                                       .max_width = std::max(s_.hidden, s_.intermediate),
                                       .max_outputs = 2 * s_.intermediate,
                                       .query_heads = s_.query_heads,
                                       .head_dim = s_.head_dim},
                                      threads);
    HEADWAY_CHECK(workspace.ok());
    workspace_ = *std::move(workspace);
    const int width = s_.query_heads * s_.head_dim;
    // All weights in one buffer: large pages, as a model's own have.
    const int kv_width = s_.kv_heads * s_.head_dim;
    const std::pair<int, int> linears[] = {{width, s_.hidden},
                                           {kv_width, s_.hidden},
                                           {kv_width, s_.hidden},
                                           {s_.hidden, width},
                                           {2 * s_.intermediate, s_.hidden},
                                           {s_.hidden, s_.intermediate}};
    int64_t bytes = PackedLinearBytes(s_.lm_head, s_.vocabulary, s_.hidden);
    for (const auto& [outputs, inputs] : linears) {
      bytes += s_.layers * PackedLinearBytes(s_.weights, outputs, inputs);
    }
    arena_ = Take(bytes);
    for (int l = 0; l < s_.layers; ++l) {
      Layer layer;
      layer.q = Linear(s_.weights, width, s_.hidden);
      layer.k = Linear(s_.weights, s_.kv_heads * s_.head_dim, s_.hidden);
      layer.v = Linear(s_.weights, s_.kv_heads * s_.head_dim, s_.hidden);
      layer.output = Linear(s_.weights, s_.hidden, width);
      layer.gate_up = Linear(s_.weights, 2 * s_.intermediate, s_.hidden);
      layer.down = Linear(s_.weights, s_.hidden, s_.intermediate);
      layers_.push_back(layer);
    }
    lm_head_ = Linear(s_.lm_head, s_.vocabulary, s_.hidden);
    embedding_ = Take(s_.vocabulary * RowBytes(s_.lm_head, s_.hidden));
    uint32_t state = 1;
    FillWeights(s_.lm_head, embedding_.data(), embedding_.size(), state);
    norm_.assign(s_.hidden, 1.0f);
    rope_.assign(static_cast<size_t>(positions) * 2 * s_.head_dim, 0.5f);

    const int blocks_a_sequence = (positions + kKvBlockTokens - 1) / kKvBlockTokens;
    KvLayerView view = {s_.kv, s_.head_dim, s_.kv_heads, int64_t{sequences} * blocks_a_sequence,
                        nullptr};
    const int64_t layer_bytes = view.RunBytes() * view.kv_heads * view.num_blocks + 64;
    kv_memory_ = Take(layer_bytes * s_.layers);
    for (int l = 0; l < s_.layers; ++l) {
      view.base = kv_memory_.data() + l * layer_bytes;
      kv_.push_back(view);
    }
    for (int i = 0; i < sequences; ++i) {
      std::vector<int32_t> table(blocks_a_sequence);
      for (int b = 0; b < blocks_a_sequence; ++b) table[b] = b * sequences + i;
      tables_.push_back(std::move(table));
    }

    residual_.resize(static_cast<size_t>(max_rows) * s_.hidden);
    queries_.resize(static_cast<size_t>(max_rows) * width);
    logits_ = Take(int64_t{sequences} * ((s_.vocabulary + 31) / 32 * 32) * 4);
    hidden_ = Rows(max_rows, s_.hidden);
    // As the forward pass has it.
    qkv_input_ =
        Rows(max_rows, s_.hidden,
             s_.activations == ActivationFormat::kQ8 ? ActivationFormat::kQ16 : s_.activations);
    attention_ = Rows(max_rows, width);
    mlp_ = Rows(max_rows, s_.intermediate);
    head_bounds_ = Bounds(std::min(s_.query_heads, 16), width);
    mlp_bounds_ = Bounds(16, s_.intermediate);
    for (int h = 0; h < s_.query_heads; ++h) {
      kv_head_of_query_.push_back(h * s_.kv_heads / s_.query_heads);
    }
    tokens_.resize(max_rows);
    for (int i = 0; i < max_rows; ++i) tokens_[i] = (i * 7919 + 13) % s_.vocabulary;
  }

  // Rows of one sequence, or one row of each of several; logits of each sequence's last row.
  void Run(int sequences, int rows, int first_position) {
    Stream stream = {&team_, workspace_.get()};
    spans_.clear();
    last_rows_.clear();
    for (int i = 0; i < sequences; ++i) {
      spans_.push_back({i * rows, rows, first_position, tables_[i].data()});
      last_rows_.push_back((i + 1) * rows - 1);
    }
    const int n = sequences * rows;
    Time(0, ops_.Embedding({.format = s_.lm_head,
                            .table = embedding_.data(),
                            .vocabulary = s_.vocabulary,
                            .width = s_.hidden,
                            .tokens = std::span(tokens_).first(n),
                            .output = residual_.data(),
                            .output_stride = s_.hidden},
                           stream));
    auto norm = [&](int rows, std::span<const int32_t> index, const Activations& output) {
      return ops_.RmsNorm({.input = residual_.data(),
                           .input_stride = s_.hidden,
                           .row_index = index,
                           .rows = rows,
                           .weight = norm_.data(),
                           .epsilon = 1e-5f,
                           .output = output},
                          stream);
    };
    for (int l = 0; l < s_.layers; ++l) {
      const Layer& layer = layers_[l];
      Time(1, norm(n, {}, qkv_input_));
      Time(2, ops_.Qkv({.input = qkv_input_,
                        .rows = n,
                        .q = layer.q,
                        .k = layer.k,
                        .v = layer.v,
                        .rope = {rope_.data(), s_.head_dim, positions_},
                        .query_scale = 0.18f,
                        .spans = spans_,
                        .queries = queries_.data(),
                        .query_stride = s_.query_heads * s_.head_dim,
                        .kv = kv_[l]},
                       stream));
      Time(3, ops_.Attention({.queries = queries_.data(),
                              .query_stride = s_.query_heads * s_.head_dim,
                              .query_heads = s_.query_heads,
                              .kv_head_of_query = kv_head_of_query_,
                              .kv = kv_[l],
                              .spans = spans_,
                              .rows = n,
                              .output = attention_},
                             stream));
      Time(4, RowParallel(layer.output, attention_, head_bounds_, n, stream));
      Time(1, norm(n, {}, hidden_));
      Time(5, ops_.GateUp({.input = hidden_, .rows = n, .weight = layer.gate_up, .output = mlp_},
                          stream));
      Time(6, RowParallel(layer.down, mlp_, mlp_bounds_, n, stream));
    }
    Time(1, norm(sequences, last_rows_, hidden_));
    Time(7, ops_.Logits({.input = hidden_,
                         .rows = sequences,
                         .weight = lm_head_,
                         .logits = logits_.As<float>(),
                         .stride = (s_.vocabulary + 31) / 32 * 32},
                        stream));
  }

  void StartTimes() {
    std::fill(std::begin(seconds_), std::end(seconds_), 0.0);
    mark_ = Now();
  }
  void PrintTimes() const {
    static constexpr const char* kNames[] = {"embedding", "norm",    "qkv",  "attention",
                                             "output",    "gate-up", "down", "lm head"};
    double total = 0;
    for (double s : seconds_) total += s;
    for (int i = 0; i < 8; ++i) {
      std::printf("  %-10s %5.1f %%\n", kNames[i], seconds_[i] / total * 100);
    }
  }
  int64_t weight_bytes() const { return weight_bytes_; }

 private:
  struct Layer {
    PackedLinear q, k, v, output, gate_up, down;
  };

  PackedLinear Linear(DType format, int outputs, int inputs) {
    std::vector<std::byte> rows(outputs * RowBytes(format, inputs));
    FillWeights(format, rows.data(), static_cast<int64_t>(rows.size()), random_);
    std::vector<const std::byte*> pointers;
    for (int o = 0; o < outputs; ++o) {
      pointers.push_back(rows.data() + o * RowBytes(format, inputs));
    }
    std::byte* data = arena_.data() + weight_bytes_;
    weight_bytes_ += PackedLinearBytes(format, outputs, inputs);
    HEADWAY_CHECK(weight_bytes_ <= static_cast<int64_t>(arena_.size()));
    PackLinear(format, pointers, inputs, data);
    return {format, outputs, inputs, data, nullptr};
  }

  Activations Rows(int rows, int width) { return Rows(rows, width, s_.activations); }
  Activations Rows(int rows, int width, ActivationFormat format) {
    buffers_.push_back(Take(ActivationRowBytes(format, width) * rows));
    return {format, buffers_.back().data(), width, ActivationStride(width)};
  }

  static std::vector<int> Bounds(int groups, int width) {
    std::vector<int> bounds;
    for (int g = 0; g <= groups; ++g) bounds.push_back(width / 32 * g / groups * 32);
    bounds.back() = width;
    return bounds;
  }

  absl::Status RowParallel(const PackedLinear& w, const Activations& x,
                           const std::vector<int>& bounds, int rows, Stream& stream) {
    return ops_.RowParallelResidual(
        {.input = x,
         .rows = rows,
         .weight = w,
         .groups = {.total = static_cast<int>(bounds.size()) - 1, .first = 0, .bounds = bounds},
         .residual = residual_.data(),
         .residual_stride = s_.hidden},
        stream);
  }

  void Time(int op, const absl::Status& status) {
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
    HEADWAY_CHECK(status.ok());
    const double now = Now();
    seconds_[op] += now - mark_;
    mark_ = now;
  }

  const Shape s_;
  const Ops& ops_;
  ThreadTeam team_;
  const int positions_;
  std::unique_ptr<Workspace> workspace_;
  HostBuffer arena_;  // the weights, one behind the other
  std::vector<HostBuffer> buffers_;
  std::vector<Layer> layers_;
  PackedLinear lm_head_;
  HostBuffer embedding_, kv_memory_, logits_;
  std::vector<KvLayerView> kv_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<float> norm_, rope_, residual_, queries_;
  Activations hidden_, qkv_input_, attention_, mlp_;
  std::vector<int> head_bounds_, mlp_bounds_, kv_head_of_query_;
  std::vector<int32_t> tokens_, last_rows_;
  std::vector<SpanView> spans_;
  uint32_t random_ = 7;
  int64_t weight_bytes_ = 0;
  double seconds_[8] = {};
  double mark_ = 0;
};

int Main(int argc, char** argv) {
  Shape shape;
  std::string table, weights = "q4_1", lm_head = "q8_0", kv = "f16", activations = "q8";
  int threads = 2, prefill = 0, chunk = 512, decode = 0, batch = 1, context = 0, repeat = 5;
  CLI::App app("Times the kernels in the order of a forward pass, on random weights.");
  app.add_option("--table", table, "kernels: avx512, avx2, scalar or reference (default: fastest)");
  app.add_option("--threads", threads, "threads")->capture_default_str();
  app.add_option("--prefill", prefill, "tokens of a prompt");
  app.add_option("--chunk", chunk, "tokens of a batch")->capture_default_str();
  app.add_option("--decode", decode, "steps of one token a sequence");
  app.add_option("--batch", batch, "sequences that decode together")->capture_default_str();
  app.add_option("--context", context, "positions before the first decoded token");
  app.add_option("--repeat", repeat, "repetitions")->capture_default_str();
  app.add_option("--layers", shape.layers)->capture_default_str();
  app.add_option("--hidden", shape.hidden)->capture_default_str();
  app.add_option("--heads", shape.query_heads)->capture_default_str();
  app.add_option("--kv-heads", shape.kv_heads)->capture_default_str();
  app.add_option("--head-dim", shape.head_dim)->capture_default_str();
  app.add_option("--intermediate", shape.intermediate)->capture_default_str();
  app.add_option("--vocabulary", shape.vocabulary)->capture_default_str();
  const std::vector<std::pair<std::string, DType>> formats = {
      {"f32", DType::kF32},   {"f16", DType::kF16},   {"bf16", DType::kBF16},
      {"q8_0", DType::kQ8_0}, {"q4_0", DType::kQ4_0}, {"q4_1", DType::kQ4_1}};
  auto format = [&](const char* option, std::string& name, const char* what) {
    std::vector<std::string> names;
    for (const auto& [n, dtype] : formats) names.push_back(n);
    app.add_option(option, name, what)->check(CLI::IsMember(names))->capture_default_str();
  };
  format("--weights", weights, "format of the linears");
  format("--lm-head", lm_head, "format of the LM head and embedding");
  format("--kv-dtype", kv, "format of the cache");
  app.add_option("--activations", activations)
      ->check(CLI::IsMember({"q8", "f32"}))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  for (const auto& [name, dtype] : formats) {
    if (name == weights) shape.weights = dtype;
    if (name == lm_head) shape.lm_head = dtype;
    if (name == kv) shape.kv = dtype;
  }
  shape.activations = activations == "q8" ? ActivationFormat::kQ8 : ActivationFormat::kF32;
  absl::StatusOr<const Ops*> ops = table.empty() ? &BestCpuOps() : FindOps(table);
  if (!ops.ok()) {
    std::fprintf(stderr, "%s\n", ops.status().ToString().c_str());
    return 1;
  }
  if ((prefill > 0) == (decode > 0)) {
    std::fprintf(stderr, "give --prefill or --decode\n");
    return 1;
  }

  const int positions = prefill > 0 ? prefill : context + decode;
  const int sequences = prefill > 0 ? 1 : batch;
  Pass pass(shape, **ops, threads, std::max(chunk, batch), sequences, positions);
  std::vector<double> times;
  for (int r = -1; r < repeat; ++r) {
    if (r <= 0) pass.StartTimes();
    if (prefill > 0) {
      const double start = Now();
      for (int first = 0; first < prefill; first += chunk) {
        pass.Run(1, std::min(chunk, prefill - first), first);
      }
      if (r >= 0) times.push_back(Now() - start);
    }
    for (int step = 0; step < decode; ++step) {
      const double start = Now();
      pass.Run(batch, 1, context + step);
      if (r >= 0) times.push_back(Now() - start);
    }
  }
  std::sort(times.begin(), times.end());
  const double tokens = prefill > 0 ? prefill : batch;
  const double median = times[times.size() / 2];
  std::printf("%s, %d threads, %s: best %.1f, median %.1f tokens/s", (*ops)->name, threads,
              prefill > 0 ? "prefill" : "decode", tokens / times.front(), tokens / median);
  if (decode > 0) {
    std::printf("; weights at %.1f GB/s", static_cast<double>(pass.weight_bytes()) / median / 1e9);
  }
  std::printf("\n");
  pass.PrintTimes();
  return 0;
}

}  // namespace
}  // namespace headway::kernels

int main(int argc, char** argv) { return headway::kernels::Main(argc, argv); }
