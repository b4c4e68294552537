#ifndef HEADWAY_RUNTIME_CHECKPOINT_SAFETENSORS_FILE_H_
#define HEADWAY_RUNTIME_CHECKPOINT_SAFETENSORS_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/mapped_file.h"

namespace headway {

// One tensor of a safetensors file, of any type the file may name.
struct SafetensorsEntry {
  std::string dtype;                 // as written: "F32", "BF16", "I32", ...
  std::vector<int64_t> shape;        // outermost first
  std::span<const std::byte> bytes;  // dense; any alignment
};

using SafetensorsEntries = std::map<std::string, SafetensorsEntry, std::less<>>;

// The container format of Hugging Face: u64 length | JSON header of that length | data. The header
// maps a name to {"dtype", "shape", "data_offsets": [begin, end)}, offsets from the start of the
// data, and "__metadata__" to free text. Tensors fill the data without gap or overlap.
//
// DataLoss when the file ends early, InvalidArgument when it contradicts itself; the message names
// the tensor. Memory used is in proportion to the file, whatever lengths it claims.
absl::StatusOr<SafetensorsEntries> ParseSafetensors(std::span<const std::byte> file);

// A safetensors file, memory-mapped. Immutable and thread-safe. Movable; the bytes of the entries
// stay where they are until it is destroyed.
class SafetensorsFile {
 public:
  // Errors of MappedFile::Open and ParseSafetensors; messages begin with `path`.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  const SafetensorsEntries& entries() const { return entries_; }
  // Null where there is no such tensor.
  const SafetensorsEntry* Find(std::string_view name) const;
  int64_t file_bytes() const { return static_cast<int64_t>(file_.bytes().size()); }
  void DropResidentPages() const { file_.DropResidentPages(); }

 private:
  SafetensorsFile(MappedFile file, SafetensorsEntries entries)
      : file_(std::move(file)), entries_(std::move(entries)) {}
  MappedFile file_;
  SafetensorsEntries entries_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CHECKPOINT_SAFETENSORS_FILE_H_
