#ifndef HEADWAY_RUNTIME_BASE_MAPPED_FILE_H_
#define HEADWAY_RUNTIME_BASE_MAPPED_FILE_H_

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace headway {

// A whole file mapped read-only: pages are read when they are touched. Movable owner; the bytes
// stay where they are until it is destroyed. Thread-safe. A file that somebody shortens while it is
// mapped ends the process (SIGBUS) when the lost part is touched: replace files, do not rewrite
// them in place.
class MappedFile {
 public:
  MappedFile() = default;
  // NotFound when there is no such file, InvalidArgument when it is not a regular file,
  // PermissionDenied, or Unavailable with the reason. Messages begin with `path`.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Lets the pages that were read leave this process's memory; they are read again when they are
  // next touched.
  void DropResidentPages() const { DropResidentPages(bytes()); }
  // The same of pages that lie whole in `part`, which is of the bytes of some MappedFile.
  static void DropResidentPages(std::span<const std::byte> part);

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_BASE_MAPPED_FILE_H_
