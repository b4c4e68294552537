#include "runtime/node/node_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/request/validate.h"

namespace headway {
namespace {

// How long the loop sleeps while it waits for a transfer: a prompt's first token is late by at most
// this.
constexpr std::chrono::microseconds kPollInterval(200);
// How long it sleeps when only a lease could run out.
constexpr std::chrono::milliseconds kIdleInterval(50);

NodeOptions Resolve(NodeOptions options, const ForwardLimits& step, const CommandLimits& ranks) {
  int& running = options.queue.max_running;
  if (running == 0) running = step.max_logit_rows;
  running = std::min(running, ranks.sequences);
  if (options.max_chunk == 0) options.max_chunk = step.max_rows;
  return options;
}

absl::Status RanksStopped(const absl::Status& why) {
  return absl::UnavailableError(absl::StrCat("the node's ranks stopped: ", why.message()));
}

absl::Status Draining() {
  return absl::UnavailableError("the node drains: it takes no new requests");
}

}  // namespace

NodeLoop::NodeLoop(const NodeOptions& options, RankEngine& engine, RankWorker& worker,
                   std::vector<std::string> rank_addresses, const Clock& clock)
    : options_(Resolve(options, engine.limits(), worker.limits())),
      engine_(engine),
      worker_(worker),
      rank_addresses_(std::move(rank_addresses)),
      clock_(clock),
      pool_(engine.kv().num_blocks()),
      chooser_(engine.config().vocabulary, engine.config().eos_tokens),
      recorder_(engine.config().hidden),
      command_(LargestStep(worker.limits())),
      executed_(command_) {
  command_.Clear();
  executed_.Clear();
  const int sequences = options_.queue.max_running;
  // Given out from the back.
  for (int slot = sequences - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  running_.reserve(sequences);
  spans_.reserve(sequences);
  ready_.reserve(sequences);
  runnable_.reserve(sequences);
  counts_.reserve(sequences);
  PublishLoad();
}

NodeLoop::~NodeLoop() { Stop(); }

void NodeLoop::Start() {
  thread_ = std::thread([this] {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        if (stop_ || ended_) break;
      }
      if (!RunOnce()) Wait();
    }
    Fail(absl::UnavailableError("the node is shutting down"));
  });
}

void NodeLoop::Stop() {
  {
    std::unique_lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    Fail(absl::UnavailableError("the node is shutting down"));
  }
}

absl::Status NodeLoop::broken() const {
  std::unique_lock lock(mutex_);
  return broken_;
}

int64_t NodeLoop::StalledNanos() const { return busy_ ? clock_.NowNanos() - progress_nanos_ : 0; }

absl::Status NodeLoop::health() const {
  std::unique_lock lock(mutex_);
  HEADWAY_RETURN_IF_ERROR(broken_);
  const double stalled_seconds = static_cast<double>(StalledNanos()) * 1e-9;
  if (stalled_seconds >= options_.stuck_seconds) {
    return absl::UnavailableError(absl::StrCat("the node is stuck: no step has ended for ",
                                               stalled_seconds, " s, the limit is ",
                                               options_.stuck_seconds, " s"));
  }
  return draining_ ? Draining() : absl::OkStatus();
}

NodeLoad NodeLoop::load() const {
  std::unique_lock lock(mutex_);
  NodeLoad load = load_;
  load.waiting += posted_.tasks;
  load.waiting_blocks += posted_.blocks;
  load.stalled_ms = StalledNanos() / 1'000'000;
  return load;
}

bool NodeLoop::IdleLocked() const {
  return ended_ || (inbox_.empty() && posted_.tasks == 0 &&
                    load_.waiting + load_.running + load_.reservations == 0);
}

bool NodeLoop::Drain(double seconds) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  return idle_.wait_for(lock, std::chrono::duration<double>(seconds),
                        [this] { return IdleLocked(); });
}

NodeLoop::Posted NodeLoop::TaskOf(int64_t positions) const {
  const int64_t most = int64_t{pool_.capacity()} * kernels::kKvBlockTokens;
  return {.tasks = 1, .blocks = BlocksFor(std::clamp<int64_t>(positions, 0, most))};
}

uint64_t NodeLoop::Post(const Posted& what, std::function<void(uint64_t)> action) {
  std::unique_lock lock(mutex_);
  const uint64_t id = next_id_++;
  if (ended_) {
    // Nobody drains the inbox any more; every action starts by looking at the health and only
    // reports it.
    lock.unlock();
    action(id);
    return id;
  }
  if (!std::exchange(busy_, true)) progress_nanos_ = clock_.NowNanos();
  posted_.tasks += what.tasks;
  posted_.blocks += what.blocks;
  inbox_.push_back([id, action = std::move(action)] { action(id); });
  lock.unlock();
  wake_.notify_all();
  return id;
}

void NodeLoop::Wait() {
  bool polling = false;
  bool leases = false;
  for (const auto& [id, sequence] : sequences_) {
    polling |= sequence->state == Sequence::State::kArriving ||
               sequence->state == Sequence::State::kSending;
    leases |= sequence->state == Sequence::State::kReserved;
  }
  std::unique_lock lock(mutex_);
  auto ready = [this] { return stop_ || !inbox_.empty(); };
  if (polling) {
    wake_.wait_for(lock, kPollInterval, ready);
  } else if (leases) {
    wake_.wait_for(lock, kIdleInterval, ready);
  } else {
    wake_.wait(lock, ready);
  }
}

bool NodeLoop::DrainInbox() {
  std::vector<std::function<void()>> actions;
  {
    std::unique_lock lock(mutex_);
    actions.swap(inbox_);
    drained_ = posted_;
    if (!std::exchange(busy_, true)) progress_nanos_ = clock_.NowNanos();
  }
  for (auto& action : actions) action();
  return !actions.empty();
}

bool NodeLoop::RunOnce() {
  const bool worked = DrainInbox();
  if (!broken().ok()) return worked;
  ExpireLeases();
  StartWaiting();
  AddSpans(command_);
  const bool transfers = !command_.empty();
  const bool step = !command_.spans.empty();
  AddPolls(command_);
  if (!command_.empty()) PublishLoad();
  if (!ExecuteCommand()) return true;
  EndTurn(step);
  // A turn that only looked at transfers is no reason to look again at once, unless something came
  // of it: a sequence whose KV is all here, an end that the ranks must hear of, blocks that
  // somebody may wait for.
  return worked || transfers || HasWork();
}

// False when the ranks have stopped.
bool NodeLoop::ExecuteCommand() {
  // What comes of this command may already add to the next one.
  std::swap(command_, executed_);
  command_.Clear();
  if (!executed_.empty()) {
    if (tracing_) {
      recorder_.Begin(static_cast<int>(executed_.tokens.size()), engine_.config().layers);
    }
    if (absl::Status status = worker_.Lead(executed_, tracing_ ? &recorder_ : nullptr);
        !status.ok()) {
      Fail(RanksStopped(status));
      return false;
    }
    AnswerGrants();
    Deliver();
    HandleReports();
  }
  return true;
}

bool NodeLoop::HasWork() const {
  return !command_.empty() || std::any_of(running_.begin(), running_.end(), [this](uint64_t id) {
    return sequences_.at(id)->state == Sequence::State::kComputing;
  });
}

void NodeLoop::PublishLoad() {
  NodeLoad load = counters_;
  load.free_blocks = pool_.free();
  load.total_blocks = pool_.capacity();
  load.waiting = static_cast<int>(waiting_.size());
  for (uint64_t id : waiting_) load.waiting_blocks += sequences_.at(id)->blocks_needed();
  for (uint64_t id : running_) {
    const Sequence::State state = sequences_.at(id)->state;
    const bool reserved =
        state == Sequence::State::kReserved || state == Sequence::State::kArriving;
    ++(reserved ? load.reservations : load.running);
  }
  load.kv_projections = engine_.kv_projections();
  std::unique_lock lock(mutex_);
  load_ = load;
  const Posted drained = std::exchange(drained_, {});
  posted_.tasks -= drained.tasks;
  posted_.blocks -= drained.blocks;
  if (IdleLocked()) idle_.notify_all();
}

// Whether the loop gets on: a step has ended, or nothing wants one.
void NodeLoop::EndTurn(bool stepped) {
  PublishLoad();
  const bool wanted = HasWork() || (running_.empty() && !waiting_.empty());
  std::unique_lock lock(mutex_);
  if (stepped || !wanted) progress_nanos_ = clock_.NowNanos();
  busy_ = wanted || !inbox_.empty();
}

AdmissionSnapshot NodeLoop::Snapshot() const {
  AdmissionSnapshot snapshot;
  snapshot.capacity_blocks = pool_.capacity();
  snapshot.free_blocks = pool_.free();
  snapshot.running = static_cast<int>(running_.size());
  snapshot.waiting = static_cast<int>(waiting_.size());
  for (uint64_t id : waiting_) snapshot.waiting_tokens += sequences_.at(id)->prompt_tokens;
  return snapshot;
}

absl::Status NodeLoop::CheckTokens(const std::vector<int32_t>& tokens, int more) const {
  if (tokens.empty())
    return absl::InvalidArgumentError("the prompt is empty: send at least one token");
  const int64_t total = static_cast<int64_t>(tokens.size()) + more;
  if (more < 0 || total > engine_.limits().max_positions) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt of ", tokens.size(), " tokens and max_tokens ", more, " exceed the ",
                     engine_.limits().max_positions, " positions of the model on this node"));
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!InVocabulary(tokens[i]))
      return OutsideVocabulary(absl::StrCat("prompt token ", i), tokens[i]);
  }
  return absl::OkStatus();
}

bool NodeLoop::InVocabulary(int32_t token) const {
  return token >= 0 && token < engine_.config().vocabulary;
}

absl::Status NodeLoop::OutsideVocabulary(const std::string& name, int32_t token) const {
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", token, "; the vocabulary has ",
                                                 engine_.config().vocabulary, " ids"));
}

absl::Status NodeLoop::CheckSequence(const std::vector<int32_t>& prompt,
                                     const SamplingParams& sampling) const {
  HEADWAY_RETURN_IF_ERROR(CheckTokens(prompt, sampling.max_tokens));
  return ValidateSampling(sampling, engine_.config().vocabulary);
}

absl::Status NodeLoop::Enqueue(SequencePtr sequence) {
  {
    std::unique_lock lock(mutex_);
    HEADWAY_RETURN_IF_ERROR(broken_);
    if (draining_) return Draining();
  }
  HEADWAY_RETURN_IF_ERROR(DecideEnqueue(Snapshot(), options_.queue, sequence->blocks_needed(),
                                        sequence->prompt_tokens));
  sequence->enqueued_nanos = clock_.NowNanos();
  waiting_.push_back(sequence->id);
  sequences_.emplace(sequence->id, std::move(sequence));
  return absl::OkStatus();
}

void NodeLoop::StartWaiting() {
  while (!waiting_.empty()) {
    Sequence& sequence = *sequences_.at(waiting_.front());
    if (!DecideStart(Snapshot(), options_.queue, sequence.blocks_needed())) return;
    absl::StatusOr<BlockSpan> blocks = pool_.TryAllocate(sequence.blocks_needed());
    if (!blocks.ok()) return;
    waiting_.pop_front();
    sequence.blocks = *std::move(blocks);
    sequence.started_nanos = clock_.NowNanos();
    sequence.slot = free_slots_.back();
    free_slots_.pop_back();
    running_.push_back(sequence.id);
    Begin(sequence);
  }
}

void NodeLoop::AddSpans(RankCommand& command) {
  ready_.clear();
  runnable_.clear();
  for (uint64_t id : running_) {
    Sequence& sequence = *sequences_.at(id);
    if (sequence.state != Sequence::State::kComputing) continue;
    ready_.push_back(&sequence);
    runnable_.push_back({.remaining = sequence.remaining(),
                         .decoding = sequence.decoding(),
                         .all_logits = sequence.all_logits()});
  }
  const BatchLimits limits = {.max_rows = engine_.limits().max_rows,
                              .max_logit_rows = engine_.limits().max_logit_rows,
                              .max_chunk = options_.max_chunk};
  counts_.resize(ready_.size());
  DecideBatch(runnable_, limits, counts_);
  spans_.clear();
  tracing_ = false;
  int row = 0;
  int logit_row = 0;
  for (size_t i = 0; i < ready_.size(); ++i) {
    if (counts_[i] == 0) continue;
    Sequence& sequence = *ready_[i];
    const int end = sequence.computed + counts_[i];
    const bool reaches_end = end == static_cast<int>(sequence.tokens.size());
    AddTable(sequence, command);
    command.tokens.insert(command.tokens.end(), sequence.tokens.begin() + sequence.computed,
                          sequence.tokens.begin() + end);
    CommandSpan span;
    span.slot = sequence.slot;
    span.count = counts_[i];
    span.first_position = sequence.computed;
    span.logits = sequence.all_logits() ? BatchSpan::Logits::kAll
                  : reaches_end         ? BatchSpan::Logits::kLast
                                        : BatchSpan::Logits::kNone;
    if (sequence.kind == Sequence::Kind::kPrefill) {
      span.push_to = sequence.reservation.reservation_id;
      span.push_begin = sequence.pushed_blocks;
      span.push_end = reaches_end ? BlocksFor(end) : end / kernels::kKvBlockTokens;
      sequence.pushed_blocks = span.push_end;
    }
    tracing_ |= sequence.trace;
    spans_.push_back({sequence.id, span.count, row, logit_row, span.logits});
    row += span.count;
    logit_row += span.logits == BatchSpan::Logits::kAll    ? span.count
                 : span.logits == BatchSpan::Logits::kLast ? 1
                                                           : 0;
    command.spans.push_back(span);
  }
}

// Blocks travel once: what the ranks know of the sequence's table stays there.
void NodeLoop::AddTable(Sequence& sequence, RankCommand& command) {
  const std::vector<int32_t>& ids = sequence.blocks.ids();
  const int blocks = sequence.blocks.size();
  if (sequence.known_blocks == blocks) return;
  command.tables.push_back({.slot = sequence.slot,
                            .kept = sequence.known_blocks,
                            .added = blocks - sequence.known_blocks});
  command.blocks.insert(command.blocks.end(), ids.begin() + sequence.known_blocks, ids.end());
  sequence.known_blocks = blocks;
}

void NodeLoop::AddPolls(RankCommand& command) {
  for (uint64_t id : running_) {
    const Sequence& sequence = *sequences_.at(id);
    if (sequence.state == Sequence::State::kArriving) {
      command.poll_receives.push_back(sequence.reservation.reservation_id);
    }
    // Also while the prompt is computed: if its KV gets nowhere, the rest need not be.
    if (sequence.kind == Sequence::Kind::kPrefill && sequence.transfer_open) {
      command.poll_sends.push_back(sequence.reservation.reservation_id);
    }
  }
}

void NodeLoop::HandleReports() {
  const RankWorker::Reports& reports = worker_.reports();
  const size_t ranks = rank_addresses_.size();
  for (size_t i = 0; i < executed_.poll_receives.size(); ++i) {
    HandleArrival(*sequences_.at(by_reservation_.at(executed_.poll_receives[i])),
                  std::span(reports.receives).subspan(i * ranks, ranks));
  }
  for (size_t i = 0; i < executed_.poll_sends.size(); ++i) {
    // The step may have ended it.
    const auto known = by_reservation_.find(executed_.poll_sends[i]);
    if (known == by_reservation_.end()) continue;
    HandleDeparture(*sequences_.at(known->second),
                    std::span(reports.sends).subspan(i * ranks, ranks));
  }
}

void NodeLoop::Cancel(uint64_t handle) {
  Post({}, [this, handle](uint64_t) {
    if (broken().ok()) End(handle, absl::CancelledError("the request was cancelled"));
  });
}

void NodeLoop::End(uint64_t id, const absl::Status& status) {
  auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  SequencePtr sequence = std::move(found->second);
  sequences_.erase(found);
  std::erase(waiting_, id);
  std::erase(running_, id);
  if (sequence->slot >= 0) free_slots_.push_back(sequence->slot);
  if (sequence->transfer_open) {
    const uint64_t reservation = sequence->reservation.reservation_id;
    (sequence->kind == Sequence::Kind::kDecode ? command_.closes : command_.end_sends)
        .push_back(reservation);
  }
  if (sequence->reservation.reservation_id != 0)
    by_reservation_.erase(sequence->reservation.reservation_id);
  // Free at once: whoever gets them next is heard of by the ranks in the command that ends this
  // transfer at the earliest, and a rank ends transfers first.
  sequence->blocks.Release();
  if (sequence->sink != nullptr) sequence->sink->OnDone(status);
  if (sequence->prefill_done) {
    if (status.ok()) {
      sequence->prefill_done(std::move(sequence->prefill_result));
    } else {
      sequence->prefill_done(status);
    }
  }
  if (sequence->score_done) {
    if (status.ok()) {
      sequence->score_done(std::move(sequence->score_result));
    } else {
      sequence->score_done(status);
    }
  }
  if (sequence->reserve_done) {
    sequence->reserve_done(status.ok() ? absl::CancelledError("the reservation was released")
                                       : status);
  }
}

void NodeLoop::Break(const absl::Status& why) {
  Post({}, [this, why](uint64_t) { Fail(RanksStopped(why)); });
}

void NodeLoop::Fail(const absl::Status& status) {
  {
    std::unique_lock lock(mutex_);
    if (ended_) return;
    broken_ = status;
    ended_ = true;
  }
  DrainInbox();  // each action finds the health broken and reports it
  std::vector<uint64_t> ids;
  for (const auto& [id, sequence] : sequences_) ids.push_back(id);
  for (uint64_t id : ids) End(id, status);
  PublishLoad();
  bool stopping;
  {
    std::unique_lock lock(mutex_);
    stopping = stop_;
  }
  if (stopping) {
    RankCommand stop;
    stop.stop = true;
    if (absl::Status told = worker_.Lead(stop, nullptr); !told.ok()) {
      LogWarning(absl::StrCat("telling the ranks to stop: ", told.message()));
    }
  } else if (on_failure_) {
    on_failure_(status);
  }
}

}  // namespace headway
