#ifndef HEADWAY_RUNTIME_COMM_SEGMENT_COMMUNICATOR_H_
#define HEADWAY_RUNTIME_COMM_SEGMENT_COMMUNICATOR_H_

#include <array>
#include <memory>
#include <string_view>

#include "runtime/comm/communicator.h"
#include "runtime/comm/segment.h"

namespace headway {

// A communicator over a segment of shared memory, whoever shares it: local_communicator.h gives
// one to threads, shm_communicator.h to processes.
//
// Every rank counts the collectives at which it has arrived. A collective is: write the own slot,
// arrive, wait for the ranks whose data is wanted, read their slots. A waiting rank spins for some
// microseconds, then gives its core away a few times, then sleeps on the awaited rank's counter;
// asleep, it looks every 100 ms whether a peer has died.
class SegmentCommunicator : public Communicator {
 public:
  // `memory`: a formatted segment for `size` ranks, of which the caller has taken place `rank`
  // (its pid is in the segment). `shared_by_processes` says which kind of futex is wanted.
  SegmentCommunicator(std::shared_ptr<std::byte> memory, int rank, int size, absl::Duration timeout,
                      bool shared_by_processes);
  ~SegmentCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  absl::Status Barrier() override;
  absl::Status Broadcast(int root, std::span<std::byte> bytes) override;
  absl::Status Gather(int root, std::span<const std::byte> mine, std::span<const int64_t> sizes,
                      std::byte* all) override;
  absl::Status AllToAll(std::span<const std::byte> send, std::span<const int64_t> send_sizes,
                        std::byte* recv, std::span<const int64_t> recv_sizes) override;
  void Abort(const std::string& reason) override;

 private:
  enum class Patience { kTimeout, kUnlimited };

  SegmentHeader& header() { return *reinterpret_cast<SegmentHeader*>(memory_.get()); }
  RankLine& line(int rank) { return header().ranks[rank]; }
  SlotHeader* slot(int rank) {
    return SegmentSlot(memory_.get(), rank, static_cast<int>(target_ / kArrival % 2));
  }

  // Begins the next collective (or piece) without writing anything.
  void Next(CollectiveOp op);
  // Begins the next one, waits until the own slot may be written, and heads it, but for
  // the bytes.
  absl::Status NextWithSlot(CollectiveOp op, int root);
  // Tells the peers that this rank has arrived.
  absl::Status Arrive();
  // Waits until `peer` has arrived at `target`.
  absl::Status WaitFor(int peer, uint32_t target, Patience patience);
  absl::Status SleepFor(int peer, uint32_t target, Patience patience);
  // Waits for `peer` at the current collective and checks that it does the same.
  absl::Status Meet(int peer, int root, int64_t bytes, Patience patience = Patience::kTimeout);

  // Ends the communicator for all ranks, unless it has ended already, and returns why.
  absl::Status Fail(absl::StatusCode code, std::string_view text);
  absl::Status Failure();
  absl::Status CheckSizes(std::span<const int64_t> sizes, const char* name);
  absl::Status DeadPeer();
  void WakeSleepers(RankLine& line);

  const std::shared_ptr<std::byte> memory_;
  const int rank_;
  const int size_;
  const int64_t timeout_nanos_;
  const bool shared_by_processes_;
  uint32_t target_ = kFirstArrivals;  // arrivals of this rank once it has arrived
  CollectiveOp op_ = CollectiveOp::kBarrier;
  std::array<int, kMaxRanks> pidfds_;  // -1: not opened yet
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_COMM_SEGMENT_COMMUNICATOR_H_
