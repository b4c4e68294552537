#include "runtime/transfer/send_buffers.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace headway {

SendBuffers::Buffer SendBuffers::Take(size_t size) {
  const size_t capacity = std::bit_ceil(std::max<size_t>(size, 4096));
  std::vector<Buffer>& kept = kept_[std::countr_zero(capacity)];
  {
    std::lock_guard lock(mutex_);
    if (!kept.empty()) {
      Buffer buffer = std::move(kept.back());
      kept.pop_back();
      kept_bytes_ -= capacity;
      return buffer;
    }
  }
  return {std::make_unique_for_overwrite<std::byte[]>(capacity), capacity};
}

void SendBuffers::Return(Buffer buffer) {
  std::lock_guard lock(mutex_);
  if (kept_bytes_ + buffer.capacity > max_kept_bytes_) return;
  kept_bytes_ += buffer.capacity;
  kept_[std::countr_zero(buffer.capacity)].push_back(std::move(buffer));
}

}  // namespace headway
