#include "runtime/experiment/bench/engine_bench.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/local_communicator.h"
#include "runtime/experiment/bench/read_bandwidth.h"
#include "runtime/kv/block_pool.h"
#include "runtime/kv/kv_storage.h"

namespace headway {
namespace {

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// One rank's side of the benchmark. Every rank runs the same batches; rank 0 keeps the times.
class Runner {
 public:
  Runner(RankEngine& engine, const EngineBenchOptions& options, double bandwidth,
         const std::function<void(const BenchRow&)>* report)
      : engine_(engine), options_(options), bandwidth_(bandwidth), report_(report) {
    tokens_.resize(engine.limits().max_positions);
    // Any ids do: the work does not depend on them. 7919 is prime, so few repeat.
    for (size_t i = 0; i < tokens_.size(); ++i) {
      tokens_[i] = static_cast<int32_t>((i * 7919 + 13) % engine.config().vocabulary);
    }
  }

  // A prompt from its first token to the logits after its last.
  absl::Status FillOnce(int count) {
    if (count > engine_.limits().max_positions) {
      return absl::InvalidArgumentError(absl::StrCat("a prompt of ", count,
                                                     " tokens: the model has ",
                                                     engine_.limits().max_positions, " positions"));
    }
    return Fill(Table(0, count), count);
  }

  absl::Status RunAll() {
    for (int tokens : options_.prefill_tokens) {
      if (Fits(absl::StrCat("prefill ", tokens), tokens)) HEADWAY_RETURN_IF_ERROR(Prefill(tokens));
    }
    for (int batch : options_.batches)
      HEADWAY_RETURN_IF_ERROR(Decode(batch, options_.short_context));
    if (options_.long_context == 0) return absl::OkStatus();
    if (Fits(absl::StrCat("decode after ", options_.long_context, " tokens"),
             options_.long_context + options_.decode_tokens)) {
      HEADWAY_RETURN_IF_ERROR(Decode(1, options_.long_context));
    }
    return absl::OkStatus();
  }

 private:
  // Whether the model can hold `work`'s positions; rank 0 tells when not.
  bool Fits(const std::string& work, int positions) const {
    const int most = engine_.limits().max_positions;
    if (positions <= most) return true;
    if (report_ != nullptr) {
      LogWarning(absl::StrCat("leaves out \"", work, "\", which takes ", positions,
                              " positions: the model has ", most));
    }
    return false;
  }

  // Block table of sequence `i` of those that take `positions` each.
  std::vector<int32_t> Table(int i, int positions) const {
    std::vector<int32_t> table(BlocksFor(positions));
    std::iota(table.begin(), table.end(), i * BlocksFor(positions));
    return table;
  }

  absl::Status Fill(const std::vector<int32_t>& table, int count) {
    for (int done = 0; done < count;) {
      const int chunk = std::min(engine_.limits().max_rows, count - done);
      const BatchSpan span = {
          .tokens = std::span(tokens_).subspan(done, chunk),
          .first_position = done,
          .block_table = table,
          .logits = done + chunk == count ? BatchSpan::Logits::kLast : BatchSpan::Logits::kNone};
      HEADWAY_RETURN_IF_ERROR(engine_.Run({&span, 1}, nullptr));
      done += chunk;
    }
    return absl::OkStatus();
  }

  absl::Status Prefill(int count) {
    const std::vector<int32_t> table = Table(0, count);
    std::vector<double> seconds;
    for (int repeat = -1; repeat < options_.repeats; ++repeat) {
      const double start = Clock::Real().NowSeconds();
      HEADWAY_RETURN_IF_ERROR(Fill(table, count));
      if (repeat >= 0) seconds.push_back(Clock::Real().NowSeconds() - start);
    }
    const int steps = (count + engine_.limits().max_rows - 1) / engine_.limits().max_rows;
    Report(absl::StrCat("prefill ", count), seconds, count,
           static_cast<double>(engine_.weight_bytes()) * steps, 0);
    return absl::OkStatus();
  }

  absl::Status Decode(int batch, int context) {
    const int positions = context + options_.decode_tokens;
    std::vector<std::vector<int32_t>> tables;
    for (int i = 0; i < batch; ++i) {
      tables.push_back(Table(i, positions));
      HEADWAY_RETURN_IF_ERROR(Fill(tables.back(), context));
    }
    std::vector<double> seconds;
    std::vector<BatchSpan> spans(batch);
    for (int repeat = -1; repeat < options_.repeats; ++repeat) {
      for (int step = 0; step < options_.decode_tokens; ++step) {
        for (int i = 0; i < batch; ++i) {
          spans[i] = {.tokens = std::span(tokens_).subspan(step, 1),
                      .first_position = context + step,
                      .block_table = tables[i]};
        }
        const double start = Clock::Real().NowSeconds();
        HEADWAY_RETURN_IF_ERROR(engine_.Run(spans, nullptr));
        if (repeat >= 0) seconds.push_back(Clock::Real().NowSeconds() - start);
      }
    }
    const ModelConfig& config = engine_.config();
    const double kv_bytes =
        static_cast<double>(batch) * KvBytes(config.layers, engine_.plan().stored_kv_heads(),
                                             config.head_dim, context + options_.decode_tokens / 2,
                                             engine_.kv().layers()[0].dtype);
    const std::string after =
        context == options_.short_context ? "" : absl::StrCat(" after ", context, " tokens");
    Report(absl::StrCat("decode, ", batch, batch == 1 ? " sequence" : " sequences", after), seconds,
           batch, static_cast<double>(engine_.weight_bytes()), kv_bytes);
    return absl::OkStatus();
  }

  void Report(const std::string& work, const std::vector<double>& seconds, int tokens,
              double weight_bytes, double kv_bytes) {
    if (report_ == nullptr) return;
    const double median = Median(seconds);
    (*report_)(
        {.work = work,
         .tokens_per_second = tokens / median,
         .best_tokens_per_second = tokens / *std::min_element(seconds.begin(), seconds.end()),
         .step_ms = median * 1e3,
         .weight_bytes_per_second = options_.degree * weight_bytes / median,
         .bytes_per_second = (options_.degree * weight_bytes + kv_bytes) / median,
         .read_bandwidth = bandwidth_});
  }

  RankEngine& engine_;
  const EngineBenchOptions& options_;
  const double bandwidth_;
  const std::function<void(const BenchRow&)>* report_;  // null on ranks above 0
  std::vector<int32_t> tokens_;
};

}  // namespace

absl::Status RunEngineBench(const Checkpoint& checkpoint, const EngineBenchOptions& options,
                            const std::function<void(const BenchRow&)>& report) {
  HEADWAY_ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(checkpoint));
  EngineOptions engine_options = options.engine;
  const int positions = engine_options.limits.max_positions > 0
                            ? engine_options.limits.max_positions
                            : config.max_positions;
  int most = 1;
  if (options.long_context > 0) {
    most = BlocksFor(std::min(options.long_context + options.decode_tokens, positions));
  }
  for (int tokens : options.prefill_tokens)
    most = std::max(most, BlocksFor(std::min(tokens, positions)));
  for (int batch : options.batches) {
    most = std::max(most, batch * BlocksFor(options.short_context + options.decode_tokens));
  }
  engine_options.kv_blocks = most;
  engine_options.limits.max_logit_rows =
      options.batches.empty() ? 1
                              : *std::max_element(options.batches.begin(), options.batches.end());
  HEADWAY_ASSIGN_OR_RETURN(const double bandwidth,
                           MeasureReadBandwidth(options.degree * engine_options.threads));

  std::vector<std::unique_ptr<Communicator>> comms = NewLocalCommunicators(options.degree);
  std::vector<absl::Status> statuses(options.degree);
  auto run = [&](int rank) {
    auto measure = [&]() -> absl::Status {
      HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<RankEngine> engine,
                               RankEngine::Create(checkpoint, engine_options, *comms[rank]));
      return Runner(*engine, options, bandwidth, rank == 0 ? &report : nullptr).RunAll();
    };
    statuses[rank] = measure();
    if (!statuses[rank].ok()) comms[rank]->Abort(std::string(statuses[rank].message()));
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < options.degree; ++rank) others.emplace_back(run, rank);
  run(0);
  for (std::thread& other : others) other.join();
  for (const absl::Status& status : statuses) HEADWAY_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

absl::StatusOr<double> MeasureFirstToken(const Checkpoint& checkpoint,
                                         const EngineBenchOptions& options, int tokens) {
  const double start = Clock::Real().NowSeconds();
  EngineOptions engine_options = options.engine;
  engine_options.kv_blocks = BlocksFor(tokens);
  engine_options.limits.max_logit_rows = 1;
  const std::vector<std::unique_ptr<Communicator>> comms = NewLocalCommunicators(options.degree);
  std::vector<absl::Status> statuses(options.degree);
  auto run = [&](int rank) {
    auto measure = [&]() -> absl::Status {
      HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<RankEngine> engine,
                               RankEngine::Create(checkpoint, engine_options, *comms[rank]));
      return Runner(*engine, options, /*bandwidth=*/0, /*report=*/nullptr).FillOnce(tokens);
    };
    statuses[rank] = measure();
    if (!statuses[rank].ok()) comms[rank]->Abort(std::string(statuses[rank].message()));
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < options.degree; ++rank) others.emplace_back(run, rank);
  run(0);
  for (std::thread& other : others) other.join();
  for (const absl::Status& status : statuses) HEADWAY_RETURN_IF_ERROR(status);
  return Clock::Real().NowSeconds() - start;
}

}  // namespace headway
