#ifndef HEADWAY_RUNTIME_KV_BLOCK_POOL_H_
#define HEADWAY_RUNTIME_KV_BLOCK_POOL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/kv_layer_view.h"

namespace headway {

class BlockPool;

// Owns some blocks of a pool and gives them back when destroyed. Movable. Must not outlive its
// pool.
class BlockSpan {
 public:
  BlockSpan() = default;
  BlockSpan(BlockSpan&& other) noexcept;
  BlockSpan& operator=(BlockSpan&& other) noexcept;
  ~BlockSpan();
  // Block ids in the order of positions: a sequence's block table.
  const std::vector<int32_t>& ids() const { return ids_; }
  int size() const { return static_cast<int>(ids_.size()); }
  // Takes over the blocks of `more`, from the same pool, behind these.
  void Append(BlockSpan more);
  // Gives the blocks back now; nothing is left.
  void Release();

 private:
  friend class BlockPool;
  BlockPool* pool_ = nullptr;
  std::vector<int32_t> ids_;
};

// Hands out KV block ids. Owns no memory: KvStorage does, on every rank alike.
//
// Thread-compatible: the node loop's thread calls it. Invariant: free + held == capacity, each
// block held once; CheckIntegrity() verifies it in O(capacity).
class BlockPool {
 public:
  explicit BlockPool(int capacity);
  BlockPool(const BlockPool&) = delete;  // spans point at it
  BlockPool& operator=(const BlockPool&) = delete;
  // All or none. ResourceExhausted with both numbers when fewer than `count` are free;
  // InvalidArgument when `count` is negative.
  absl::StatusOr<BlockSpan> TryAllocate(int count);
  int capacity() const { return capacity_; }
  int free() const { return static_cast<int>(free_.size()); }
  absl::Status CheckIntegrity() const;

 private:
  friend class BlockSpan;
  void Return(const std::vector<int32_t>& ids);
  int capacity_;
  std::vector<int32_t> free_;
  std::vector<bool> held_;
};

// Blocks that hold `positions` positions, at least 0 and below 2^31 * 16.
constexpr int BlocksFor(int64_t positions) {
  constexpr int64_t kTokens = kernels::kKvBlockTokens;
  return static_cast<int>((positions + kTokens - 1) / kTokens);
}

}  // namespace headway

#endif  // HEADWAY_RUNTIME_KV_BLOCK_POOL_H_
