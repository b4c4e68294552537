#ifndef HEADWAY_RUNTIME_COMM_SEGMENT_H_
#define HEADWAY_RUNTIME_COMM_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/tensor/reduction_tree.h"

namespace headway {

// The memory that the ranks of one node share: how it is laid out, and nothing else. The same
// layout serves threads (ordinary memory) and processes (a mapped memfd), so everything in it is
// plain or lock-free and holds no pointer.

// Each rank owns a reduction group at least.
inline constexpr int kMaxRanks = kMaxReductionGroups;
// Payload of one slot. Small enough that the pieces of a large exchange stay in the second-level
// cache between writer and reader, large enough that a piece costs much more than its barrier.
inline constexpr int64_t kSlotBytes = 256 * 1024;

// `RankLine::arrivals` counts the collectives at which a rank has arrived, in steps of kArrival,
// and wraps. The low bits say why nothing more will come.
inline constexpr uint32_t kFailedBit = 1;  // the whole communicator is dead: read the failure
inline constexpr uint32_t kLeftBit = 2;    // this rank has destroyed its communicator
inline constexpr uint32_t kArrival = 4;
// Close to the end, so that every test of some length crosses it.
inline constexpr uint32_t kFirstArrivals = 0u - 16 * kArrival;

// Whether a rank with `arrivals` has arrived at `target`. Ranks are never more than two apart.
inline bool HasArrived(uint32_t arrivals, uint32_t target) {
  return static_cast<int32_t>((arrivals & ~(kArrival - 1)) - target) >= 0;
}

// What one rank tells all. Two cache lines apart: processors fetch lines in pairs.
struct alignas(128) RankLine {
  std::atomic<uint32_t> arrivals;  // a futex; added to by its rank alone
  std::atomic<uint32_t> sleepers;  // ranks asleep on `arrivals`
  std::atomic<int32_t> pid;        // 0 until the rank has joined
};

enum class CollectiveOp : uint32_t { kBarrier, kBroadcast, kGather, kAllToAll };

// Leads a slot: what its writer believes to be doing, so that ranks out of step notice.
struct alignas(64) SlotHeader {
  uint32_t arrivals;  // of the writer: to which collective this belongs
  CollectiveOp op;
  int32_t root;
  int64_t pieces;
  int64_t bytes[kMaxRanks];  // for each reader, in all pieces together
};

struct SegmentHeader {
  uint64_t magic;
  int32_t size;

  // Written once, by whoever fails first.
  enum FailureState : uint32_t { kNone, kBeingWritten, kWritten };
  alignas(64) std::atomic<uint32_t> failure_state;
  int32_t failure_code;
  char failure_text[432];  // ends in 0

  RankLine ranks[kMaxRanks];
};

static_assert(std::atomic<uint32_t>::is_always_lock_free &&
              std::atomic<int32_t>::is_always_lock_free);

inline constexpr uint64_t kSegmentMagic = 0x3130'6d6d'6f63'7768;  // "hwcomm01"

// Each rank has two slots and writes them in turn: a peer that has arrived at collective n has
// read all of n - 1, so the slot of n - 1 may be written again for n + 1.
constexpr int64_t SegmentBytes(int size) {
  return static_cast<int64_t>(sizeof(SegmentHeader)) +
         int64_t{2} * size * (static_cast<int64_t>(sizeof(SlotHeader)) + kSlotBytes);
}

inline SlotHeader* SegmentSlot(std::byte* segment, int rank, int parity) {
  return reinterpret_cast<SlotHeader*>(segment + sizeof(SegmentHeader) +
                                       (int64_t{2} * rank + parity) *
                                           (static_cast<int64_t>(sizeof(SlotHeader)) + kSlotBytes));
}
inline std::byte* SlotPayload(SlotHeader* slot) { return reinterpret_cast<std::byte*>(slot + 1); }

// Makes zeroed, 128-byte aligned memory of SegmentBytes(size) a segment that nobody has joined.
inline void FormatSegment(std::byte* segment, int size) {
  auto* header = reinterpret_cast<SegmentHeader*>(segment);
  header->size = size;
  for (RankLine& line : header->ranks) line.arrivals.store(kFirstArrivals);
  header->magic = kSegmentMagic;
}

}  // namespace headway

#endif  // HEADWAY_RUNTIME_COMM_SEGMENT_H_
