#include "runtime/experiment/verify/engine_rows.h"

#include <numeric>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/comm/local_communicator.h"
#include "runtime/engine/token_chooser.h"
#include "runtime/engine/trace_recorder.h"
#include "runtime/kv/block_pool.h"
#include "runtime/node/recording_sink.h"
#include "runtime/transfer/local_transport.h"

namespace headway {
namespace {

// Longer than a token takes anywhere.
constexpr double kWaitSeconds = 600;

// Everything that a sequence delivered, once it has ended.
absl::StatusOr<RowResult> Collect(RecordingSink& sink) {
  HEADWAY_RETURN_IF_ERROR(sink.Wait());
  RowResult result;
  result.tokens = sink.tokens();
  for (const TokenEvent& event : sink.events()) {
    result.positions.insert(result.positions.end(), event.trace.begin(), event.trace.end());
  }
  return result;
}

class UncachedRow : public VerifyRow {
 public:
  UncachedRow(const Checkpoint& checkpoint, const EngineOptions& engine)
      : checkpoint_(checkpoint), engine_(engine) {}
  std::string name() const override { return "no cache, recomputed every step"; }

  absl::StatusOr<RowResult> Run(const VerifyCase& request) override {
    EngineOptions options = engine_;
    const int most = static_cast<int>(request.prompt.size()) + request.sampling.max_tokens;
    options.limits.max_rows = most;
    options.limits.max_logit_rows = most;
    options.kv_blocks = BlocksFor(most);
    std::vector<std::unique_ptr<Communicator>> comm = NewLocalCommunicators(1);
    HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<RankEngine> engine,
                             RankEngine::Create(checkpoint_, options, *comm[0]));
    const ModelConfig& config = engine->config();
    TokenChooser chooser(config.vocabulary, config.eos_tokens);
    TraceRecorder recorder(config.hidden);
    std::vector<int32_t> table(BlocksFor(most));
    std::iota(table.begin(), table.end(), 0);

    RowResult result;
    std::vector<int32_t> tokens = request.prompt;
    for (;;) {
      const int rows = static_cast<int>(tokens.size());
      const bool first = result.positions.empty();
      const BatchSpan span = {.tokens = tokens,
                              .first_position = 0,
                              .block_table = table,
                              .logits = first ? BatchSpan::Logits::kAll : BatchSpan::Logits::kLast};
      recorder.Begin(rows, config.layers);
      HEADWAY_RETURN_IF_ERROR(engine->Run({&span, 1}, &recorder));
      for (int row = 0; row < rows; ++row) {
        const bool known = row < static_cast<int>(result.positions.size());
        const int logit_row = first ? row : row == rows - 1 ? 0 : -1;
        PositionTrace trace = recorder.Take(
            row, row, logit_row < 0 ? std::span<const float>() : engine->logits(logit_row));
        if (!known) {
          result.positions.push_back(std::move(trace));
        } else if (trace.layers != result.positions[row].layers) {
          return absl::InternalError(
              absl::StrCat("recomputing ", rows, " tokens changed position ", row));
        }
      }
      const int position = rows;
      HEADWAY_ASSIGN_OR_RETURN(
          TokenEvent event,
          chooser.Choose(engine->logits(engine->logit_rows() - 1), request.sampling,
                         position - static_cast<int>(request.prompt.size()), position));
      result.tokens.push_back(event.token);
      if (event.finish != FinishReason::kNone) return result;
      tokens.push_back(event.token);
    }
  }

 private:
  const Checkpoint& checkpoint_;
  const EngineOptions engine_;
};

class MixedRow : public VerifyRow {
 public:
  MixedRow(std::string name, const Checkpoint& checkpoint, LocalGroupOptions options,
           int companions, int prompt_limit)
      : name_(std::move(name)),
        checkpoint_(checkpoint),
        options_(std::move(options)),
        companions_(companions),
        prompt_limit_(prompt_limit) {}
  std::string name() const override { return name_; }
  int prompt_limit() const override { return prompt_limit_; }

  absl::StatusOr<RowResult> Run(const VerifyCase& request) override {
    LocalGroupOptions options = options_;
    options.node.role = NodeRole::kMixed;
    const int most = static_cast<int>(request.prompt.size()) + request.sampling.max_tokens;
    options.engine.kv_blocks = (1 + companions_) * BlocksFor(most);
    HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<LocalGroup> group,
                             LocalGroup::Create(checkpoint_, options, Clock::Real()));
    // The companions come first and in between, with prompts of their own lengths.
    std::vector<std::unique_ptr<RecordingSink>> others;
    for (int i = 0; i < companions_; ++i) {
      std::vector<int32_t> prompt(
          request.prompt.rbegin(),
          request.prompt.rbegin() + 1 + (request.prompt.size() - 1) * i / companions_);
      others.push_back(std::make_unique<RecordingSink>(kWaitSeconds));
      SamplingParams sampling = request.sampling;
      sampling.seed += 1 + i;
      group->loop().Generate(
          {.prompt = std::move(prompt), .sampling = sampling, .sink = others.back().get()});
    }
    RecordingSink sink(kWaitSeconds);
    group->loop().Generate(
        {.prompt = request.prompt, .sampling = request.sampling, .trace = true, .sink = &sink});
    absl::StatusOr<RowResult> result = Collect(sink);
    for (auto& other : others) HEADWAY_RETURN_IF_ERROR(other->Wait());
    return result;
  }

 private:
  const std::string name_;
  const Checkpoint& checkpoint_;
  const LocalGroupOptions options_;
  const int companions_;
  const int prompt_limit_;
};

class PairRow : public VerifyRow {
 public:
  PairRow(std::string name, const Checkpoint& checkpoint, LocalGroupOptions prefill,
          LocalGroupOptions decode,
          std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)> wrap)
      : name_(std::move(name)),
        checkpoint_(checkpoint),
        prefill_(std::move(prefill)),
        decode_(std::move(decode)),
        wrap_(std::move(wrap)) {}
  std::string name() const override { return name_; }

  absl::StatusOr<RowResult> Run(const VerifyCase& request) override {
    LocalTransportHub hub;
    const int prompt_tokens = static_cast<int>(request.prompt.size());
    auto start = [&](LocalGroupOptions options, NodeRole role) {
      options.node.role = role;
      options.engine.kv_blocks = BlocksFor(prompt_tokens + request.sampling.max_tokens);
      options.new_transport = [&](int) {
        std::unique_ptr<Transport> transport = hub.Create();
        return wrap_ ? wrap_(std::move(transport)) : std::move(transport);
      };
      return LocalGroup::Create(checkpoint_, options, Clock::Real());
    };
    HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<LocalGroup> decode, start(decode_, NodeRole::kDecode));
    HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<LocalGroup> prefill,
                             start(prefill_, NodeRole::kPrefill));
    Answer<ReservationGrant> grant(kWaitSeconds);
    decode->loop().Reserve({.prompt_tokens = prompt_tokens,
                            .max_tokens = request.sampling.max_tokens,
                            .done = grant.Callback()});
    Answer<PrefillResult> prefilled(kWaitSeconds);
    HEADWAY_ASSIGN_OR_RETURN(ReservationGrant target, grant.Wait());
    prefill->loop().Prefill({.prompt = request.prompt,
                             .sampling = request.sampling,
                             .trace = true,
                             .target = std::move(target),
                             .done = prefilled.Callback()});
    HEADWAY_ASSIGN_OR_RETURN(PrefillResult first, prefilled.Wait());
    RowResult result;
    result.tokens = {first.first.token};
    result.positions = std::move(first.first.trace);
    if (first.first.finish != FinishReason::kNone) return result;
    RecordingSink sink(kWaitSeconds);
    decode->loop().Decode({.prompt = request.prompt,
                           .first_token = first.first.token,
                           .sampling = request.sampling,
                           .trace = true,
                           .manifest = std::move(first.manifest),
                           .sink = &sink});
    HEADWAY_ASSIGN_OR_RETURN(RowResult rest, Collect(sink));
    result.tokens.insert(result.tokens.end(), rest.tokens.begin(), rest.tokens.end());
    result.positions.insert(result.positions.end(), rest.positions.begin(), rest.positions.end());
    return result;
  }

 private:
  const std::string name_;
  const Checkpoint& checkpoint_;
  const LocalGroupOptions prefill_, decode_;
  const std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)> wrap_;
};

}  // namespace

std::unique_ptr<VerifyRow> NewUncachedRow(const Checkpoint& checkpoint,
                                          const EngineOptions& engine) {
  return std::make_unique<UncachedRow>(checkpoint, engine);
}

std::unique_ptr<VerifyRow> NewMixedRow(std::string name, const Checkpoint& checkpoint,
                                       LocalGroupOptions options, int companions,
                                       int prompt_limit) {
  return std::make_unique<MixedRow>(std::move(name), checkpoint, std::move(options), companions,
                                    prompt_limit);
}

std::unique_ptr<VerifyRow> NewPairRow(
    std::string name, const Checkpoint& checkpoint, LocalGroupOptions prefill,
    LocalGroupOptions decode,
    std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)> wrap) {
  return std::make_unique<PairRow>(std::move(name), checkpoint, std::move(prefill),
                                   std::move(decode), std::move(wrap));
}

}  // namespace headway
