#include "runtime/comm/segment_communicator.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"

namespace headway {
namespace {

// Peers of a running step arrive within microseconds of each other; some 5 us of spinning catches
// them without a system call.
constexpr int kSpins = 200;
// After that the awaited rank may need this very core, so each look gives the core away first,
// which costs half a microsecond when nobody wants it. This long outlasts the usual difference
// between two ranks in a layer, which is cheaper than to sleep and be woken (some 30 us). A bound
// in time and not in looks: where many want the core, one look takes milliseconds.
constexpr int64_t kYieldNanos = 200'000;
constexpr int64_t kCheckNanos = 100'000'000;  // between two looks at the peers' processes

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

const char* OpName(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kBarrier:
      return "barrier";
    case CollectiveOp::kBroadcast:
      return "broadcast";
    case CollectiveOp::kGather:
      return "gather";
    case CollectiveOp::kAllToAll:
      return "all-to-all";
  }
  return "?";
}

int64_t Pieces(int64_t bytes, int64_t piece_bytes) {
  return (bytes + piece_bytes - 1) / piece_bytes;
}

// Copies if there is anything to copy; else the pointers need not point anywhere.
void Copy(std::byte* to, int64_t to_offset, const std::byte* from, int64_t from_offset,
          int64_t bytes) {
  if (bytes > 0) std::memcpy(to + to_offset, from + from_offset, static_cast<size_t>(bytes));
}

}  // namespace

SegmentCommunicator::SegmentCommunicator(std::shared_ptr<std::byte> memory, int rank, int size,
                                         absl::Duration timeout, bool shared_by_processes)
    : memory_(std::move(memory)),
      rank_(rank),
      size_(size),
      // Halved so that adding it to a time cannot overflow, infinite as it may be.
      timeout_nanos_(std::clamp<int64_t>(absl::ToInt64Nanoseconds(timeout), 0, INT64_MAX / 2)),
      shared_by_processes_(shared_by_processes) {
  pidfds_.fill(-1);
}

SegmentCommunicator::~SegmentCommunicator() {
  line(rank_).arrivals.fetch_or(kLeftBit);
  WakeSleepers(line(rank_));
  for (int fd : pidfds_) {
    if (fd >= 0) close(fd);
  }
}

absl::Status SegmentCommunicator::Barrier() {
  HEADWAY_RETURN_IF_ERROR(NextWithSlot(CollectiveOp::kBarrier, -1));
  SlotHeader& mine = *slot(rank_);
  std::fill_n(mine.bytes, size_, 0);
  HEADWAY_RETURN_IF_ERROR(Arrive());
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) HEADWAY_RETURN_IF_ERROR(Meet(peer, -1, 0));
  }
  return absl::OkStatus();
}

absl::Status SegmentCommunicator::Broadcast(int root, std::span<std::byte> bytes) {
  if (root < 0 || root >= size_) {
    return Fail(absl::StatusCode::kInvalidArgument,
                absl::StrCat("broadcast: root ", root, " is not among ", size_, " ranks"));
  }
  const int64_t total = static_cast<int64_t>(bytes.size());
  // A root with nothing to say still says so: no bytes are one piece.
  for (int64_t begin = 0; begin == 0 || begin < total; begin += kSlotBytes) {
    const int64_t count = std::min(kSlotBytes, total - begin);
    if (rank_ == root) {
      HEADWAY_RETURN_IF_ERROR(NextWithSlot(CollectiveOp::kBroadcast, root));
      SlotHeader& mine = *slot(rank_);
      std::fill_n(mine.bytes, size_, total);
      Copy(SlotPayload(&mine), 0, bytes.data(), begin, count);
      HEADWAY_RETURN_IF_ERROR(Arrive());
    } else {
      Next(CollectiveOp::kBroadcast);
      HEADWAY_RETURN_IF_ERROR(Arrive());
      // Only the first piece is worth waiting for without a limit: it is there when the root is.
      HEADWAY_RETURN_IF_ERROR(
          Meet(root, root, total, begin == 0 ? Patience::kUnlimited : Patience::kTimeout));
      Copy(bytes.data(), begin, SlotPayload(slot(root)), 0, count);
    }
  }
  return absl::OkStatus();
}

absl::Status SegmentCommunicator::Gather(int root, std::span<const std::byte> mine,
                                         std::span<const int64_t> sizes, std::byte* all) {
  if (root < -1 || root >= size_) {
    return Fail(absl::StatusCode::kInvalidArgument,
                absl::StrCat("gather: root ", root, " is not among ", size_, " ranks"));
  }
  HEADWAY_RETURN_IF_ERROR(CheckSizes(sizes, "gather: sizes"));
  if (static_cast<int64_t>(mine.size()) != sizes[rank_]) {
    return Fail(absl::StatusCode::kInvalidArgument,
                absl::StrCat("gather: rank ", rank_, " brings ", mine.size(), " bytes, sizes say ",
                             sizes[rank_]));
  }
  const bool reads = root == -1 || root == rank_;
  int64_t pieces = 1;
  int64_t my_offset = 0;
  for (int peer = 0; peer < size_; ++peer) {
    pieces = std::max(pieces, Pieces(sizes[peer], kSlotBytes));
    if (peer < rank_) my_offset += sizes[peer];
  }
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t begin = piece * kSlotBytes;
    const auto count = [&](int rank) { return std::min(kSlotBytes, sizes[rank] - begin); };
    HEADWAY_RETURN_IF_ERROR(NextWithSlot(CollectiveOp::kGather, root));
    SlotHeader& own = *slot(rank_);
    std::fill_n(own.bytes, size_, sizes[rank_]);
    Copy(SlotPayload(&own), 0, mine.data(), begin, count(rank_));
    HEADWAY_RETURN_IF_ERROR(Arrive());
    if (!reads) continue;
    int64_t offset = 0;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) {
        HEADWAY_RETURN_IF_ERROR(Meet(peer, root, sizes[peer]));
        Copy(all, offset + begin, SlotPayload(slot(peer)), 0, count(peer));
      }
      offset += sizes[peer];
    }
  }
  if (reads && mine.data() != all + my_offset) Copy(all, my_offset, mine.data(), 0, sizes[rank_]);
  return absl::OkStatus();
}

absl::Status SegmentCommunicator::AllToAll(std::span<const std::byte> send,
                                           std::span<const int64_t> send_sizes, std::byte* recv,
                                           std::span<const int64_t> recv_sizes) {
  HEADWAY_RETURN_IF_ERROR(CheckSizes(send_sizes, "all-to-all: send sizes"));
  HEADWAY_RETURN_IF_ERROR(CheckSizes(recv_sizes, "all-to-all: receive sizes"));
  int64_t total = 0;
  for (int64_t bytes : send_sizes) total += bytes;
  if (total != static_cast<int64_t>(send.size()) || send_sizes[rank_] != recv_sizes[rank_]) {
    return Fail(absl::StatusCode::kInvalidArgument,
                absl::StrCat("all-to-all: rank ", rank_, " brings ", send.size(), " bytes (",
                             send_sizes[rank_], " for itself), sizes say ", total, " (",
                             recv_sizes[rank_], ")"));
  }
  // A slot is cut evenly among the readers.
  const int64_t share = kSlotBytes / size_ / 64 * 64;
  int64_t my_pieces = 1;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) my_pieces = std::max(my_pieces, Pieces(send_sizes[peer], share));
  }
  // How many pieces there are, each rank learns from all others in the first.
  int64_t pieces = my_pieces;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t begin = piece * share;
    HEADWAY_RETURN_IF_ERROR(NextWithSlot(CollectiveOp::kAllToAll, -1));
    SlotHeader& own = *slot(rank_);
    own.pieces = my_pieces;
    std::copy_n(send_sizes.data(), size_, own.bytes);
    int64_t offset = 0;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) {
        Copy(SlotPayload(&own), peer * share, send.data(), offset + begin,
             std::min(share, send_sizes[peer] - begin));
      }
      offset += send_sizes[peer];
    }
    HEADWAY_RETURN_IF_ERROR(Arrive());
    offset = 0;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) {
        HEADWAY_RETURN_IF_ERROR(Meet(peer, -1, recv_sizes[peer]));
        pieces = std::max(pieces, slot(peer)->pieces);
        Copy(recv, offset + begin, SlotPayload(slot(peer)), rank_ * share,
             std::min(share, recv_sizes[peer] - begin));
      }
      offset += recv_sizes[peer];
    }
  }
  int64_t send_offset = 0, recv_offset = 0;
  for (int peer = 0; peer < rank_; ++peer) {
    send_offset += send_sizes[peer];
    recv_offset += recv_sizes[peer];
  }
  Copy(recv, recv_offset, send.data(), send_offset, send_sizes[rank_]);
  return absl::OkStatus();
}

void SegmentCommunicator::Abort(const std::string& reason) {
  Fail(absl::StatusCode::kAborted, reason).IgnoreError();
}

absl::Status SegmentCommunicator::CheckSizes(std::span<const int64_t> sizes, const char* name) {
  if (static_cast<int>(sizes.size()) != size_) {
    return Fail(absl::StatusCode::kInvalidArgument,
                absl::StrCat(name, " of ", sizes.size(), " ranks, there are ", size_));
  }
  for (int64_t bytes : sizes) {
    if (bytes < 0) {
      return Fail(absl::StatusCode::kInvalidArgument,
                  absl::StrCat(name, " hold ", bytes, ", which is below 0"));
    }
  }
  return absl::OkStatus();
}

void SegmentCommunicator::Next(CollectiveOp op) {
  op_ = op;
  target_ += kArrival;
}

absl::Status SegmentCommunicator::NextWithSlot(CollectiveOp op, int root) {
  Next(op);
  // A peer at the collective before this one has read what the slot held two collectives ago.
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) {
      HEADWAY_RETURN_IF_ERROR(WaitFor(peer, target_ - kArrival, Patience::kTimeout));
    }
  }
  SlotHeader& mine = *slot(rank_);
  mine.arrivals = target_;
  mine.op = op;
  mine.root = root;
  return absl::OkStatus();
}

absl::Status SegmentCommunicator::Arrive() {
  // Sequentially consistent here and in SleepFor: either the sleeper sees this arrival or this rank
  // sees the sleeper.
  const uint32_t before = line(rank_).arrivals.fetch_add(kArrival);
  WakeSleepers(line(rank_));
  return before & kFailedBit ? Failure() : absl::OkStatus();
}

void SegmentCommunicator::WakeSleepers(RankLine& line) {
  if (line.sleepers.load() == 0) return;
  syscall(SYS_futex, &line.arrivals,
          shared_by_processes_ ? FUTEX_WAKE : FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, nullptr,
          nullptr, 0);
}

absl::Status SegmentCommunicator::WaitFor(int peer, uint32_t target, Patience patience) {
  const std::atomic<uint32_t>& awaited = line(peer).arrivals;
  const auto undecided = [&] {
    const uint32_t arrivals = awaited.load(std::memory_order_acquire);
    return !HasArrived(arrivals, target) && (arrivals & kFailedBit) == 0;
  };
  for (int i = 0; i < kSpins && undecided(); ++i) Pause();
  if (undecided()) {
    const Clock& clock = Clock::Real();
    const int64_t sleep_at = clock.NowNanos() + kYieldNanos;
    while (undecided() && clock.NowNanos() < sleep_at) sched_yield();
  }
  const uint32_t arrivals = awaited.load(std::memory_order_acquire);
  if (arrivals & kFailedBit) return Failure();
  if (HasArrived(arrivals, target)) return absl::OkStatus();
  return SleepFor(peer, target, patience);
}

absl::Status SegmentCommunicator::SleepFor(int peer, uint32_t target, Patience patience) {
  RankLine& awaited = line(peer);
  const Clock& clock = Clock::Real();
  const int64_t deadline = clock.NowNanos() + timeout_nanos_;
  // A peer that has never joined is not idle: something went wrong where it was started.
  const auto limited = [&] { return patience == Patience::kTimeout || awaited.pid.load() == 0; };
  while (true) {
    int64_t nanos = kCheckNanos;
    if (limited()) nanos = std::min(nanos, std::max<int64_t>(deadline - clock.NowNanos(), 0));
    const timespec span = {static_cast<time_t>(nanos / 1'000'000'000),
                           static_cast<long>(nanos % 1'000'000'000)};
    awaited.sleepers.fetch_add(1);
    uint32_t arrivals = awaited.arrivals.load();
    bool timed_out = false;
    if (!HasArrived(arrivals, target) && (arrivals & (kFailedBit | kLeftBit)) == 0) {
      timed_out = syscall(SYS_futex, &awaited.arrivals,
                          shared_by_processes_ ? FUTEX_WAIT : FUTEX_WAIT | FUTEX_PRIVATE_FLAG,
                          arrivals, &span, nullptr, 0) == -1 &&
                  errno == ETIMEDOUT;
    }
    awaited.sleepers.fetch_sub(1);
    arrivals = awaited.arrivals.load();
    if (arrivals & kFailedBit) return Failure();
    if (HasArrived(arrivals, target)) return absl::OkStatus();
    if (arrivals & kLeftBit) {
      return Fail(absl::StatusCode::kUnavailable,
                  absl::StrCat(OpName(op_), ": rank ", peer, " of ", size_, " has left"));
    }
    if (!timed_out) continue;
    HEADWAY_RETURN_IF_ERROR(DeadPeer());
    if (limited() && clock.NowNanos() >= deadline) {
      // The awaited rank may itself wait for another; the one that is furthest behind is to blame.
      int last = peer;
      for (int other = 0; other < size_; ++other) {
        if (!HasArrived(line(other).arrivals.load(),
                        line(last).arrivals.load() & ~(kArrival - 1))) {
          last = other;
        }
      }
      return Fail(absl::StatusCode::kDeadlineExceeded,
                  absl::StrCat(OpName(op_), ": rank ", last, " of ", size_,
                               line(last).pid.load() == 0 ? " has not joined" : " did not arrive",
                               " within ", absl::FormatDuration(absl::Nanoseconds(timeout_nanos_)),
                               ", rank ", rank_, " waited"));
    }
  }
}

absl::Status SegmentCommunicator::Meet(int peer, int root, int64_t bytes, Patience patience) {
  HEADWAY_RETURN_IF_ERROR(WaitFor(peer, target_, patience));
  const SlotHeader& theirs = *slot(peer);
  if (theirs.arrivals != target_) {
    return Fail(absl::StatusCode::kInternal,
                absl::StrCat("ranks are out of step: rank ", peer, " gives nothing to a ",
                             OpName(op_), " (root ", root, ") of rank ", rank_));
  }
  if (theirs.op == op_ && theirs.root == root && theirs.bytes[rank_] == bytes) [[likely]] {
    return absl::OkStatus();
  }
  return Fail(
      absl::StatusCode::kInternal,
      absl::StrCat("ranks are out of step: rank ", peer, " does a ", OpName(theirs.op), " (root ",
                   theirs.root, ") of ", theirs.bytes[rank_], " bytes where rank ", rank_,
                   " does a ", OpName(op_), " (root ", root, ") of ", bytes));
}

absl::Status SegmentCommunicator::Fail(absl::StatusCode code, std::string_view text) {
  SegmentHeader& shared = header();
  uint32_t state = SegmentHeader::kNone;
  if (shared.failure_state.compare_exchange_strong(state, SegmentHeader::kBeingWritten)) {
    shared.failure_code = static_cast<int32_t>(code);
    const size_t length = text.copy(shared.failure_text, sizeof(shared.failure_text) - 1);
    shared.failure_text[length] = 0;
    shared.failure_state.store(SegmentHeader::kWritten);
  }
  for (int rank = 0; rank < size_; ++rank) {
    line(rank).arrivals.fetch_or(kFailedBit);
    WakeSleepers(line(rank));
  }
  return Failure();
}

absl::Status SegmentCommunicator::Failure() {
  SegmentHeader& shared = header();
  // Bounded: the writer may have been killed between its first and its last store.
  for (int i = 0; i < 10'000 && shared.failure_state.load() != SegmentHeader::kWritten; ++i) {
    sched_yield();
  }
  if (shared.failure_state.load() != SegmentHeader::kWritten) {
    return absl::UnavailableError("a rank died while it reported a failure");
  }
  return absl::Status(static_cast<absl::StatusCode>(shared.failure_code), shared.failure_text);
}

absl::Status SegmentCommunicator::DeadPeer() {
  for (int peer = 0; peer < size_; ++peer) {
    const int32_t pid = line(peer).pid.load();
    if (pid == 0 || pid == getpid() || (line(peer).arrivals.load() & kLeftBit)) continue;
    // A pid file descriptor tells of a process that is dead but not yet waited for, too.
    int& fd = pidfds_[peer];
    if (fd < 0) fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    bool dead = fd < 0 && errno == ESRCH;
    if (fd >= 0) {
      pollfd entry = {fd, POLLIN, 0};
      dead = poll(&entry, 1, 0) > 0;
    }
    if (dead && (line(peer).arrivals.load() & kLeftBit) == 0) {
      return Fail(absl::StatusCode::kUnavailable, absl::StrCat(OpName(op_), ": rank ", peer, " of ",
                                                               size_, " (process ", pid, ") died"));
    }
  }
  return absl::OkStatus();
}

}  // namespace headway
