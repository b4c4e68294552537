#ifndef HEADWAY_RUNTIME_TRANSFER_SEND_BUFFERS_H_
#define HEADWAY_RUNTIME_TRANSFER_SEND_BUFFERS_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace headway {

// Buffers of messages under way, kept for reuse: a fresh one of this size costs more in page faults
// than the copy into it. Thread-safe. Buffers may outlive the pool.
class SendBuffers {
 public:
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    size_t capacity = 0;
  };

  // Keeps at most `max_kept_bytes` that nobody uses.
  explicit SendBuffers(size_t max_kept_bytes) : max_kept_bytes_(max_kept_bytes) {}

  // At least `size` bytes, uninitialised.
  Buffer Take(size_t size);
  void Return(Buffer buffer);

 private:
  const size_t max_kept_bytes_;
  std::mutex mutex_;
  std::vector<Buffer> kept_[64];  // [log2 of the capacity]
  size_t kept_bytes_ = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_SEND_BUFFERS_H_
