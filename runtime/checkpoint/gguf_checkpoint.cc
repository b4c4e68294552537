#include "runtime/checkpoint/gguf_checkpoint.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/mapped_file.h"
#include "runtime/base/status.h"
#include "runtime/base/utf8.h"
#include "runtime/checkpoint/ggml_types.h"
#include "runtime/checkpoint/gguf_file.h"
#include "runtime/checkpoint/gguf_metadata.h"
#include "runtime/checkpoint/weight_digest.h"

namespace headway {
namespace {

std::string TypeName(uint32_t id) {
  const GgmlType* type = FindGgmlType(id);
  return type == nullptr ? absl::StrCat("unknown type ", id) : type->name;
}

class GgufCheckpoint : public Checkpoint {
 public:
  GgufCheckpoint(std::string path, MappedFile file, GgufContents contents)
      : path_(std::move(path)),
        file_(std::move(file)),
        metadata_(path_, std::move(contents.keys)),
        header_(contents.header),
        tensors_(std::move(contents.tensors)) {}

  Kind kind() const override { return Kind::kGguf; }
  const Metadata& metadata() const override { return metadata_; }

  std::vector<std::string> TensorNames() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) names.emplace_back(name);
    return names;
  }

  bool Has(std::string_view name) const override { return tensors_.contains(name); }

  absl::StatusOr<TensorRef> Tensor(std::string_view name) const override {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      return absl::NotFoundError(absl::StrCat(path_, ": there is no tensor ", Quoted(name)));
    }
    const GgufTensor& tensor = found->second;
    const GgmlType* type = FindGgmlType(tensor.type);
    if (type == nullptr || !type->dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": tensor ", Quoted(name), " is stored as ", TypeName(tensor.type),
                       "; the types that can be used are F32, F16, BF16, Q8_0, Q4_0 and Q4_1"));
    }
    return TensorRef{std::string(name), *type->dtype, tensor.shape, tensor.bytes.data()};
  }

  absl::StatusOr<std::string> SideFile(std::string_view name) const override {
    return absl::NotFoundError(
        absl::StrCat(path_, ": a GGUF file has no file ", Quoted(name), " beside it"));
  }

  uint64_t digest() const override {
    std::call_once(digested_, [this] {
      WeightDigest digest(header_);
      for (const auto& [name, tensor] : tensors_) {
        digest.Add(name, TypeName(tensor.type), tensor.shape, tensor.bytes);
      }
      digest_ = digest.value();
    });
    return digest_;
  }
  int64_t file_bytes() const override { return static_cast<int64_t>(file_.bytes().size()); }
  void DropResidentPages() const override { file_.DropResidentPages(); }

 private:
  std::string path_;
  MappedFile file_;
  GgufMetadata metadata_;
  std::span<const std::byte> header_;  // of file_
  std::map<std::string_view, GgufTensor, std::less<>> tensors_;
  mutable std::once_flag digested_;
  mutable uint64_t digest_ = 0;
};

// A model of several files says so in each; its tensors would be found to be missing one by one.
absl::Status CheckNotSplit(const std::string& path, const Metadata& metadata) {
  constexpr std::string_view kSplitCount = "split.count";
  if (!metadata.Has(kSplitCount)) return absl::OkStatus();
  HEADWAY_ASSIGN_OR_RETURN(const int64_t files, metadata.Int(kSplitCount));
  if (files <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": one of ", files, " files that make up a model (key ", Quoted(kSplitCount),
      "); join them first: llama-gguf-split --merge FIRST JOINED"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenGguf(const std::string& path) {
  HEADWAY_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  absl::StatusOr<GgufContents> contents = ParseGguf(file.bytes());
  HEADWAY_RETURN_IF_ERROR(Annotate(contents.status(), path));
  auto checkpoint = std::make_unique<GgufCheckpoint>(path, std::move(file), *std::move(contents));
  HEADWAY_RETURN_IF_ERROR(CheckNotSplit(path, checkpoint->metadata()));
  return checkpoint;
}

}  // namespace headway
