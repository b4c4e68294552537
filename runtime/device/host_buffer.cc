#include "runtime/device/host_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace headway {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

absl::StatusOr<HostBuffer> HostBuffer::Allocate(size_t bytes) {
  HostBuffer buffer;
  if (bytes == 0) return buffer;
  auto refused = [&](const char* why) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot have ", bytes, " bytes of host memory: ", why));
  };
  if (bytes > SIZE_MAX / 2) return refused("larger than the address space");
  // A huge page must be aligned to its size, which mmap does not promise: take one more and give
  // back what lies before and behind.
  const size_t wanted = RoundUp(bytes, kPage);
  const size_t slack = wanted >= kHugePage ? kHugePage : 0;
  void* taken =
      mmap(nullptr, wanted + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (taken == MAP_FAILED) return refused(std::strerror(errno));
  std::byte* start = static_cast<std::byte*>(taken);
  if (slack > 0) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(start);
    const size_t before = RoundUp(address, kHugePage) - address;
    if (before > 0) munmap(start, before);
    if (slack > before) munmap(start + before + wanted, slack - before);
    start += before;
    madvise(start, wanted, MADV_HUGEPAGE);  // a wish: small pages work as well
  }
  buffer.data_ = start;
  buffer.size_ = bytes;
  return buffer;
}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HostBuffer::~HostBuffer() {
  if (data_ != nullptr) munmap(data_, RoundUp(size_, kPage));
}

}  // namespace headway
