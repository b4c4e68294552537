#include "runtime/comm/shm_communicator.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/comm/segment_communicator.h"

namespace headway {
namespace {

absl::Status SystemError(const char* what) {
  return absl::InternalError(absl::StrCat("communicator segment: ", what, ": ", strerror(errno)));
}

absl::Status CheckSize(int size) {
  if (size >= 1 && size <= kMaxRanks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("communicator of ", size, " ranks: 1 to ", kMaxRanks, " are possible"));
}

absl::StatusOr<std::shared_ptr<std::byte>> Map(int fd, size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return SystemError("mmap");
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(address),
                                    [bytes](std::byte* p) { munmap(p, bytes); });
}

// Of a fresh memfd; the caller closes `fd` after an error.
absl::Status Format(int fd, int size) {
  const int64_t bytes = ShmSegmentBytes(size);
  if (ftruncate(fd, bytes) != 0) return SystemError("ftruncate");
  // A file that cannot shrink cannot make a reader fault.
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return SystemError("F_ADD_SEALS");
  HEADWAY_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, Map(fd, static_cast<size_t>(bytes)));
  FormatSegment(memory.get(), size);
  return absl::OkStatus();
}

}  // namespace

int64_t ShmSegmentBytes(int size) { return SegmentBytes(size); }

absl::StatusOr<int> NewShmSegment(int size) {
  HEADWAY_RETURN_IF_ERROR(CheckSize(size));
  const int fd = memfd_create("headway-communicator", MFD_ALLOW_SEALING);
  if (fd < 0) return SystemError("memfd_create");
  if (absl::Status status = Format(fd, size); !status.ok()) {
    close(fd);
    return status;
  }
  return fd;
}

absl::StatusOr<std::unique_ptr<Communicator>> NewShmCommunicator(
    const ShmCommunicatorOptions& options) {
  HEADWAY_RETURN_IF_ERROR(CheckSize(options.size));
  if (options.rank < 0 || options.rank >= options.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("communicator: rank ", options.rank, " is not among ", options.size));
  }
  struct stat file;
  if (fstat(options.fd, &file) != 0) return SystemError("fstat");
  if (file.st_size != ShmSegmentBytes(options.size)) {
    return absl::InvalidArgumentError(absl::StrCat("communicator segment: ", file.st_size,
                                                   " bytes, ", options.size, " ranks need ",
                                                   ShmSegmentBytes(options.size)));
  }
  HEADWAY_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory,
                           Map(options.fd, static_cast<size_t>(file.st_size)));
  auto* header = reinterpret_cast<SegmentHeader*>(memory.get());
  if (header->magic != kSegmentMagic || header->size != options.size) {
    return absl::InvalidArgumentError("communicator segment: not one of this version and size");
  }
  int32_t pid = 0;
  if (!header->ranks[options.rank].pid.compare_exchange_strong(pid, getpid())) {
    return absl::AlreadyExistsError(
        absl::StrCat("communicator: process ", pid, " is rank ", options.rank, " already"));
  }
  return std::make_unique<SegmentCommunicator>(std::move(memory), options.rank, options.size,
                                               options.timeout, /*shared_by_processes=*/true);
}

}  // namespace headway
