#include "runtime/kv/block_pool.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"

namespace headway {

BlockSpan::BlockSpan(BlockSpan&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), ids_(std::exchange(other.ids_, {})) {}

BlockSpan& BlockSpan::operator=(BlockSpan&& other) noexcept {
  if (this == &other) return *this;
  Release();
  pool_ = std::exchange(other.pool_, nullptr);
  ids_ = std::exchange(other.ids_, {});
  return *this;
}

BlockSpan::~BlockSpan() { Release(); }

void BlockSpan::Append(BlockSpan more) {
  if (more.pool_ == nullptr) return;
  HEADWAY_CHECK(pool_ == nullptr || pool_ == more.pool_);
  pool_ = more.pool_;
  ids_.insert(ids_.end(), more.ids_.begin(), more.ids_.end());
  more.pool_ = nullptr;
  more.ids_.clear();
}

void BlockSpan::Release() {
  if (pool_ != nullptr) pool_->Return(ids_);
  pool_ = nullptr;
  ids_.clear();
}

BlockPool::BlockPool(int capacity) : capacity_(capacity) {
  HEADWAY_CHECK(capacity >= 0);
  held_.resize(capacity, false);
  free_.reserve(capacity);
  // The back is handed out first: ascending ids from a fresh pool.
  for (int id = capacity - 1; id >= 0; --id) free_.push_back(id);
}

absl::StatusOr<BlockSpan> BlockPool::TryAllocate(int count) {
  if (count < 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot take ", count, " KV blocks"));
  }
  if (count > free()) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot take ", count, " KV blocks: ", free(),
                                                     " of ", capacity_, " are free"));
  }
  BlockSpan span;
  span.pool_ = this;
  span.ids_.assign(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - count);
  for (const int32_t id : span.ids_) held_[id] = true;
  return span;
}

void BlockPool::Return(const std::vector<int32_t>& ids) {
  // Backwards, so that the same blocks would be handed out in the same order.
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    HEADWAY_CHECK(*id >= 0 && *id < capacity_ && held_[*id]);
    held_[*id] = false;
    free_.push_back(*id);
  }
}

absl::Status BlockPool::CheckIntegrity() const {
  std::vector<bool> seen(capacity_, false);
  for (const int32_t id : free_) {
    if (id < 0 || id >= capacity_) {
      return absl::InternalError(
          absl::StrCat("KV block ", id, " is free, but the pool has ", capacity_));
    }
    if (seen[id]) return absl::InternalError(absl::StrCat("KV block ", id, " is free twice"));
    if (held_[id]) return absl::InternalError(absl::StrCat("KV block ", id, " is free and held"));
    seen[id] = true;
  }
  for (int id = 0; id < capacity_; ++id) {
    if (!seen[id] && !held_[id]) {
      return absl::InternalError(absl::StrCat("KV block ", id, " is neither free nor held"));
    }
  }
  return absl::OkStatus();
}

}  // namespace headway
