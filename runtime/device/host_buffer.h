#ifndef HEADWAY_RUNTIME_DEVICE_HOST_BUFFER_H_
#define HEADWAY_RUNTIME_DEVICE_HOST_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

namespace headway {

// Zeroed host memory of this process, page-aligned, in 2 MiB pages where the kernel has them.
// Movable owner; the memory is returned on destruction.
class HostBuffer {
 public:
  HostBuffer() = default;
  // ResourceExhausted with the size and the reason when the memory cannot be had.
  static absl::StatusOr<HostBuffer> Allocate(size_t bytes);
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  ~HostBuffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  template <class T>
  T* As() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_DEVICE_HOST_BUFFER_H_
