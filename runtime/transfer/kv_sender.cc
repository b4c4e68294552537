#include "runtime/transfer/kv_sender.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/kv/digest.h"
#include "runtime/transfer/kv_message.h"

namespace headway {
namespace {

// Of one peer, bytes handed to the transport and not done. Enough to keep it busy while the next
// messages are made.
constexpr int64_t kMaxOutstandingBytes = 8 << 20;

// Blocks of a layer that are to go to every route.
struct ReadyBlocks {
  int layer = 0;
  int begin = 0, end = 0;
};

// Progress of one SendTask.
struct Task {
  SendTask task;
  std::vector<bool> enqueued;  // [layer][block]

  // Sent in order: each range to route after route. Emptied when all of it is sent, so it does not
  // grow while a step runs.
  std::vector<ReadyBlocks> ready;
  size_t next_ready = 0;
  size_t next_route = 0;
  int next_block = 0;  // within the range, from its begin

  bool reading = false;  // the thread reads this task's blocks
  int outstanding = 0;   // messages handed over and not done
  SendState state;       // `done` is derived

  bool Pending() const { return next_ready < ready.size(); }
  void Advance(int runs) {
    next_block += runs;
    if (ready[next_ready].begin + next_block < ready[next_ready].end) return;
    next_block = 0;
    if (++next_route < task.routes.size()) return;
    next_route = 0;
    if (++next_ready < ready.size()) return;
    ready.clear();
    next_ready = 0;
  }
  void Fail(absl::Status status) {
    if (state.status.ok()) state.status = std::move(status);
    ready.clear();
    next_ready = next_route = 0;
    next_block = 0;
  }
};

// What the sender shares with the transport's callbacks, which may come after it is gone.
struct Shared {
  std::mutex mutex;
  std::condition_variable work;                     // for the thread
  std::condition_variable idle;                     // for End: a task is not being read any more
  std::map<uint64_t, std::shared_ptr<Task>> tasks;  // by reservation
  std::unordered_map<std::string, int64_t> outstanding_bytes;  // by peer address
  bool stop = false;
};

// One message: neighbouring blocks of one layer and head.
struct Batch {
  std::shared_ptr<Task> task;
  HeadRoute route;
  int layer = 0;
  int first_block = 0;
  int runs = 0;
};

class CacheSender : public KvSender {
 public:
  CacheSender(Transport& transport, std::span<const kernels::KvLayerView> layers,
              const Clock& clock, std::string_view name)
      : transport_(transport), layers_(layers.begin(), layers.end()), clock_(clock), name_(name) {
    thread_ = std::thread([this] { Run(); });
  }

  ~CacheSender() override {
    {
      std::lock_guard lock(shared_->mutex);
      shared_->stop = true;
    }
    shared_->work.notify_one();
    thread_.join();
  }

  absl::Status Begin(SendTask task) override;
  void OnLayerReady(uint64_t reservation_id, int layer, int begin, int end) override;
  using KvSender::Poll;
  void Poll(uint64_t reservation_id, SendState& state) override;
  int open() const override {
    std::lock_guard lock(shared_->mutex);
    return static_cast<int>(shared_->tasks.size());
  }
  void End(uint64_t reservation_id) override;

 private:
  absl::Status Validate(const SendTask& task) const;
  bool PastDeadline(Task& task) const;
  void Run();
  bool NextBatch(uint64_t& last_served, Batch& batch);
  int64_t Send(const Batch& batch);

  Transport& transport_;
  const std::vector<kernels::KvLayerView> layers_;
  const Clock& clock_;
  const std::string name_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();

  // The thread's own, kept for their memory.
  std::vector<uint64_t> digests_;
  std::vector<std::byte> header_;
  std::vector<std::span<const std::byte>> pieces_;

  std::thread thread_;
};

absl::Status CacheSender::Validate(const SendTask& task) const {
  const std::string what = absl::StrCat("send of reservation ", task.reservation_id);
  const int blocks = static_cast<int>(task.block_table.size());
  if (task.first_block < 0) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": first block ", task.first_block));
  }
  for (const HeadRoute& route : task.routes) {
    if (route.target_rank < 0 ||
        route.target_rank >= static_cast<int>(task.peer_addresses.size())) {
      return absl::InvalidArgumentError(absl::StrCat(what, ": route to rank ", route.target_rank,
                                                     " of ", task.peer_addresses.size()));
    }
    for (const kernels::KvLayerView& layer : layers_) {
      if (route.source_head >= 0 && route.source_head < layer.kv_heads) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": local KV head ", route.source_head, " of ", layer.kv_heads));
    }
  }
  for (int i = 0; i < blocks; ++i) {
    for (const kernels::KvLayerView& layer : layers_) {
      if (task.block_table[i] >= 0 && task.block_table[i] < layer.num_blocks) continue;
      return absl::InvalidArgumentError(absl::StrCat(what, ": block ", task.block_table[i],
                                                     "; the cache has ", layer.num_blocks));
    }
  }
  return absl::OkStatus();
}

absl::Status CacheSender::Begin(SendTask send) {
  HEADWAY_RETURN_IF_ERROR(Validate(send));
  auto task = std::make_shared<Task>();
  task->state.parts.resize(send.peer_addresses.size());
  task->enqueued.resize(layers_.size() * send.block_table.size());
  task->ready.reserve(layers_.size());
  task->task = std::move(send);
  const uint64_t id = task->task.reservation_id;
  std::lock_guard lock(shared_->mutex);
  if (!shared_->tasks.emplace(id, std::move(task)).second) {
    return absl::AlreadyExistsError(
        absl::StrCat("send of reservation ", id, " is under way already"));
  }
  return absl::OkStatus();
}

void CacheSender::OnLayerReady(uint64_t reservation_id, int layer, int begin, int end) {
  std::lock_guard lock(shared_->mutex);
  const auto found = shared_->tasks.find(reservation_id);
  if (found == shared_->tasks.end()) return;
  Task& task = *found->second;
  const int blocks = static_cast<int>(task.task.block_table.size());
  if (layer < 0 || layer >= static_cast<int>(layers_.size()) || begin < 0 || end > blocks) {
    task.Fail(absl::InvalidArgumentError(
        absl::StrCat("send of reservation ", reservation_id, ": layer ", layer, " of ",
                     layers_.size(), ", blocks ", begin, " to ", end, " of ", blocks)));
    return;
  }
  if (!task.state.status.ok() || task.task.routes.empty()) return;
  const size_t row = static_cast<size_t>(layer) * blocks;
  for (int block = std::max(begin, task.task.first_block); block < end; ++block) {
    if (task.enqueued[row + block]) continue;
    const int first = block;
    for (; block < end && !task.enqueued[row + block]; ++block) task.enqueued[row + block] = true;
    task.ready.push_back({layer, first, block});
  }
  shared_->work.notify_one();
}

bool CacheSender::PastDeadline(Task& task) const {
  const int64_t now = clock_.NowNanos();
  if (now < task.task.deadline_nanos) return false;
  task.Fail(absl::DeadlineExceededError(
      absl::StrCat("send of reservation ", task.task.reservation_id, ": its lease ended ",
                   (now - task.task.deadline_nanos) / 1'000'000, " ms before all was sent")));
  return true;
}

void CacheSender::Poll(uint64_t reservation_id, SendState& state) {
  std::lock_guard lock(shared_->mutex);
  const auto found = shared_->tasks.find(reservation_id);
  if (found == shared_->tasks.end()) {
    state.done = false;
    state.status =
        absl::NotFoundError(absl::StrCat("send of reservation ", reservation_id, ": not begun"));
    state.bytes = 0;
    state.parts.clear();
    return;
  }
  Task& task = *found->second;
  // The thread looks before each message; here for those that wait for a peer to take something.
  if (task.Pending()) PastDeadline(task);
  state = task.state;
  state.done = !task.Pending() && !task.reading && task.outstanding == 0;
}

void CacheSender::End(uint64_t reservation_id) {
  std::unique_lock lock(shared_->mutex);
  const auto found = shared_->tasks.find(reservation_id);
  if (found == shared_->tasks.end()) return;
  const std::shared_ptr<Task> task = std::move(found->second);
  shared_->tasks.erase(found);
  shared_->idle.wait(lock, [&] { return !task->reading; });
}

void CacheSender::Run() {
  uint64_t last_served = 0;
  std::unique_lock lock(shared_->mutex);
  while (!shared_->stop) {
    Batch batch;
    if (!NextBatch(last_served, batch)) {
      shared_->work.wait(lock);
      continue;
    }
    batch.task->reading = true;
    lock.unlock();
    const int64_t bytes = Send(batch);
    lock.lock();
    SendState& state = batch.task->state;
    for (int run = 0; run < batch.runs; ++run) {
      state.parts[batch.route.target_rank].Add(batch.layer, batch.route.kv_head,
                                               batch.first_block + run, digests_[run]);
    }
    state.bytes += bytes;
    batch.task->reading = false;
    shared_->idle.notify_all();
  }
}

// The next message of the first task in turn that has one and whose peer has room. With the mutex
// held.
bool CacheSender::NextBatch(uint64_t& last_served, Batch& batch) {
  auto& tasks = shared_->tasks;
  auto at = tasks.upper_bound(last_served);
  for (size_t looked_at = 0; looked_at < tasks.size(); ++looked_at, ++at) {
    if (at == tasks.end()) at = tasks.begin();
    Task& task = *at->second;
    if (!task.Pending() || PastDeadline(task)) continue;
    const ReadyBlocks& range = task.ready[task.next_ready];
    const HeadRoute& route = task.task.routes[task.next_route];
    const int64_t run_bytes = layers_[range.layer].RunBytes();
    const int first_block = range.begin + task.next_block;
    const int runs = std::min(KvMessageRuns(run_bytes), range.end - first_block);
    int64_t& outstanding = shared_->outstanding_bytes[task.task.peer_addresses[route.target_rank]];
    if (outstanding > 0 && outstanding + runs * run_bytes > kMaxOutstandingBytes) continue;
    outstanding += runs * run_bytes;
    ++task.outstanding;
    batch = {at->second, route, range.layer, first_block, runs};
    last_served = at->first;
    task.Advance(runs);
    return true;
  }
  return false;
}

// Returns the bytes of the payload.
int64_t CacheSender::Send(const Batch& batch) {
  const SendTask& task = batch.task->task;
  const kernels::KvLayerView& layer = layers_[batch.layer];
  const size_t run_bytes = static_cast<size_t>(layer.RunBytes());
  digests_.clear();
  pieces_.clear();
  for (int run = 0; run < batch.runs; ++run) {
    const int block = task.block_table[batch.first_block + run];
    const std::span<const std::byte> bytes(layer.Run(batch.route.source_head, block), run_bytes);
    digests_.push_back(RunDigest(bytes));
    // Blocks that follow one another in the cache, as they mostly do, are one piece.
    if (!pieces_.empty() && pieces_.back().data() + pieces_.back().size() == bytes.data()) {
      pieces_.back() = {pieces_.back().data(), pieces_.back().size() + run_bytes};
    } else {
      pieces_.push_back(bytes);
    }
  }
  KvWireHeader header = {.layer = static_cast<uint32_t>(batch.layer),
                         .reservation_id = task.reservation_id,
                         .epoch = task.epoch,
                         .kv_head = static_cast<uint32_t>(batch.route.kv_head),
                         .target_head = static_cast<uint32_t>(batch.route.target_head),
                         .first_block = static_cast<uint32_t>(batch.first_block),
                         .runs = static_cast<uint32_t>(batch.runs),
                         .run_bytes = static_cast<uint32_t>(run_bytes)};
  SetKvSource(name_, header);
  EncodeKvHeader(header, digests_, header_);
  const int64_t bytes = batch.runs * static_cast<int64_t>(run_bytes);
  transport_.SendPieces(
      task.peer_addresses[batch.route.target_rank], header_, pieces_,
      [shared = shared_, task = batch.task, rank = batch.route.target_rank,
       bytes](const absl::Status& status) {
        std::lock_guard lock(shared->mutex);
        const auto room = shared->outstanding_bytes.find(task->task.peer_addresses[rank]);
        room->second -= bytes;
        if (room->second == 0) shared->outstanding_bytes.erase(room);
        --task->outstanding;
        if (!status.ok()) {
          task->Fail(Annotate(status, absl::StrCat("send of reservation ",
                                                   task->task.reservation_id, " to rank ", rank)));
        }
        shared->work.notify_one();
      });
  return bytes;
}

}  // namespace

std::unique_ptr<KvSender> KvSender::Create(Transport& transport,
                                           std::span<const kernels::KvLayerView> layers,
                                           const Clock& clock, std::string_view name) {
  return std::make_unique<CacheSender>(transport, layers, clock, name);
}

}  // namespace headway
