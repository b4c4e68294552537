#ifndef HEADWAY_RUNTIME_CHECKPOINT_CHECKPOINT_H_
#define HEADWAY_RUNTIME_CHECKPOINT_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/metadata.h"
#include "runtime/tensor/dtype.h"

namespace headway {

// One stored tensor: a view into the mapped file, valid as long as its Checkpoint.
struct TensorRef {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t>
      shape;  // outermost first: a linear is [outputs, inputs]; last dimension dense
  const std::byte* data = nullptr;  // file layout; any alignment

  int64_t rows() const { return shape.size() < 2 ? 1 : shape[0]; }
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  const std::byte* row(int64_t i) const { return data + i * RowBytes(dtype, columns()); }
};

// A checkpoint on disk: a GGUF file or a Hugging Face folder. Knows no model: names and shapes as
// stored. Memory-mapped, so reading a slice touches only that slice. Immutable and thread-safe
// after Open.
class Checkpoint {
 public:
  enum class Kind { kGguf, kHuggingFace };

  // `path`: a .gguf file, or a folder with config.json and model.safetensors (or an index and its
  // shards). NotFound when there is no such file; InvalidArgument or DataLoss naming the file and
  // the tensor or key when it is truncated, malformed, or has an unknown tensor type (only an error
  // when that tensor is asked for, so unused tensors of other types do no harm).
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path);
  virtual ~Checkpoint() = default;

  virtual Kind kind() const = 0;
  virtual const Metadata& metadata() const = 0;
  virtual std::vector<std::string> TensorNames() const = 0;
  virtual bool Has(std::string_view name) const = 0;
  // NotFound names the tensor; InvalidArgument names tensor and type.
  virtual absl::StatusOr<TensorRef> Tensor(std::string_view name) const = 0;
  // Contents of another file of the folder (e.g. tokenizer.json); NotFound where there is none, and
  // for GGUF.
  virtual absl::StatusOr<std::string> SideFile(std::string_view name) const = 0;
  // Identifies the weights: header and every byte of every tensor. The same for a copy elsewhere.
  // The first call reads the whole file.
  virtual uint64_t digest() const = 0;
  virtual int64_t file_bytes() const = 0;
  // What this process has read so far may leave its memory; it is read from the file again when it
  // is next touched. Harmless at any time.
  virtual void DropResidentPages() const {}
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CHECKPOINT_CHECKPOINT_H_
