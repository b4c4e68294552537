#include "runtime/checkpoint/huggingface_checkpoint.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/json.h"
#include "runtime/base/mapped_file.h"
#include "runtime/base/status.h"
#include "runtime/base/utf8.h"
#include "runtime/checkpoint/json_metadata.h"
#include "runtime/checkpoint/safetensors_file.h"
#include "runtime/checkpoint/weight_digest.h"

namespace headway {
namespace {

using nlohmann::json;

constexpr char kConfig[] = "config.json";
constexpr char kWeights[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";

// Text files of a folder are read whole; the largest, tokenizer.json, has some tens of MB.
constexpr size_t kMaxTextBytes = size_t{256} << 20;

// Names come from files and callers; none may lead out of the folder.
bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  HEADWAY_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", bytes.size(), " bytes; the limit is ", kMaxTextBytes));
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<DType> DTypeOf(std::string_view name) {
  if (name == "F32") return DType::kF32;
  if (name == "F16") return DType::kF16;
  if (name == "BF16") return DType::kBF16;
  return std::nullopt;
}

// The weights of a folder: which file holds which tensor.
struct Weights {
  std::vector<SafetensorsFile> files;
  // Entries of `files`, which stay where they are when the vector moves.
  std::map<std::string, const SafetensorsEntry*, std::less<>> tensors;
};

absl::Status AddShard(const std::string& folder, const std::string& shard,
                      const std::vector<std::string>& names, Weights& weights) {
  if (!IsPlainFileName(shard)) {
    return absl::InvalidArgumentError(absl::StrCat(folder, "/", kIndex, ": tensor ",
                                                   Quoted(names.front()), " lies in ",
                                                   Quoted(shard), ", which is not a file name"));
  }
  const std::string path = absl::StrCat(folder, "/", shard);
  absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path);
  HEADWAY_RETURN_IF_ERROR(Annotate(file.status(), absl::StrCat("a shard that ", kIndex, " names")));
  for (const std::string& name : names) {
    const SafetensorsEntry* entry = file->Find(name);
    if (entry == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": there is no tensor ", Quoted(name),
                                                     ", though ", kIndex, " says that it is here"));
    }
    weights.tensors.emplace(name, entry);
  }
  weights.files.push_back(*std::move(file));
  return absl::OkStatus();
}

bool SameTensor(const SafetensorsEntry& a, const SafetensorsEntry& b) {
  return a.dtype == b.dtype && a.shape == b.shape && std::ranges::equal(a.bytes, b.bytes);
}

// Some readers take a tensor from the shard that the index names, some from the last that has it:
// where two shards have one, it must not matter.
absl::Status CheckCopies(const std::string& folder, const json& shard_of_tensor,
                         const std::vector<std::string>& shards, const Weights& weights) {
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const auto& [name, entry] : weights.files[i].entries()) {
      const auto placed = weights.tensors.find(name);
      if (placed == weights.tensors.end() || placed->second == &entry) continue;
      if (SameTensor(*placed->second, entry)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(folder, "/", shards[i], ": tensor ", Quoted(name), " is not the one in ",
                       shard_of_tensor[name].get<std::string>(), ", where ", kIndex,
                       " says that it is; remove one of the two"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Weights> OpenSharded(const std::string& folder, std::string_view index_text) {
  const std::string index_path = absl::StrCat(folder, "/", kIndex);
  absl::StatusOr<json> index = ParseJson(index_text);
  HEADWAY_RETURN_IF_ERROR(Annotate(index.status(), index_path));
  const json* map = nullptr;
  if (index->is_object() && index->contains("weight_map")) map = &(*index)["weight_map"];
  if (map == nullptr || !map->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(index_path, ": 'weight_map' is missing or not an object"));
  }
  std::map<std::string, std::vector<std::string>> names_of_shard;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(index_path, ": the file of tensor ", Quoted(name), " is not text"));
    }
    names_of_shard[shard.get<std::string>()].push_back(name);
  }
  Weights weights;
  std::vector<std::string> shards;
  for (const auto& [shard, names] : names_of_shard) {
    HEADWAY_RETURN_IF_ERROR(AddShard(folder, shard, names, weights));
    shards.push_back(shard);
  }
  HEADWAY_RETURN_IF_ERROR(CheckCopies(folder, *map, shards, weights));
  return weights;
}

absl::StatusOr<Weights> OpenWeights(const std::string& folder) {
  Weights weights;
  absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(absl::StrCat(folder, "/", kWeights));
  if (file.ok()) {
    for (const auto& [name, entry] : file->entries()) weights.tensors.emplace(name, &entry);
    weights.files.push_back(*std::move(file));
    return weights;
  }
  if (!absl::IsNotFound(file.status())) return file.status();
  const absl::StatusOr<std::string> index = ReadText(absl::StrCat(folder, "/", kIndex));
  if (absl::IsNotFound(index.status())) {
    return absl::NotFoundError(
        absl::StrCat(folder, ": no weights: neither ", kWeights, " nor ", kIndex, " is there"));
  }
  HEADWAY_RETURN_IF_ERROR(index.status());
  return OpenSharded(folder, *index);
}

class HuggingFaceCheckpoint : public Checkpoint {
 public:
  HuggingFaceCheckpoint(std::string folder, std::string config,
                        std::unique_ptr<JsonMetadata> metadata, Weights weights)
      : folder_(std::move(folder)),
        config_(std::move(config)),
        metadata_(std::move(metadata)),
        weights_(std::move(weights)) {
    for (const SafetensorsFile& file : weights_.files) file_bytes_ += file.file_bytes();
  }

  Kind kind() const override { return Kind::kHuggingFace; }
  const Metadata& metadata() const override { return *metadata_; }

  std::vector<std::string> TensorNames() const override {
    std::vector<std::string> names;
    for (const auto& [name, entry] : weights_.tensors) names.push_back(name);
    return names;
  }

  bool Has(std::string_view name) const override { return weights_.tensors.contains(name); }

  absl::StatusOr<TensorRef> Tensor(std::string_view name) const override {
    const auto found = weights_.tensors.find(name);
    if (found == weights_.tensors.end()) {
      return absl::NotFoundError(absl::StrCat(folder_, ": there is no tensor ", Quoted(name)));
    }
    const SafetensorsEntry& entry = *found->second;
    const std::optional<DType> dtype = DTypeOf(entry.dtype);
    if (!dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat(folder_, ": tensor ", Quoted(name), " is stored as ", Quoted(entry.dtype),
                       "; the types that can be used are F32, F16 and BF16"));
    }
    return TensorRef{found->first, *dtype, entry.shape, entry.bytes.data()};
  }

  absl::StatusOr<std::string> SideFile(std::string_view name) const override {
    if (!IsPlainFileName(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(folder_, ": ", Quoted(name), " is not a file name"));
    }
    return ReadText(absl::StrCat(folder_, "/", std::string(name)));
  }

  uint64_t digest() const override {
    std::call_once(digested_, [this] {
      WeightDigest digest(std::as_bytes(std::span(config_)));
      for (const auto& [name, entry] : weights_.tensors) {
        digest.Add(name, entry->dtype, entry->shape, entry->bytes);
      }
      digest_ = digest.value();
    });
    return digest_;
  }
  int64_t file_bytes() const override { return file_bytes_; }
  void DropResidentPages() const override {
    for (const SafetensorsFile& file : weights_.files) file.DropResidentPages();
  }

 private:
  std::string folder_;
  std::string config_;  // the file, whole
  std::unique_ptr<JsonMetadata> metadata_;
  Weights weights_;
  mutable std::once_flag digested_;
  mutable uint64_t digest_ = 0;
  int64_t file_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenHuggingFace(const std::string& path) {
  const std::string config_path = absl::StrCat(path, "/", kConfig);
  absl::StatusOr<std::string> config = ReadText(config_path);
  if (absl::IsNotFound(config.status())) {
    return absl::NotFoundError(
        absl::StrCat(path, ": not a checkpoint folder: there is no ", kConfig, " in it"));
  }
  HEADWAY_RETURN_IF_ERROR(config.status());
  HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<JsonMetadata> metadata,
                           JsonMetadata::Parse(config_path, *config));
  HEADWAY_ASSIGN_OR_RETURN(Weights weights, OpenWeights(path));
  return std::make_unique<HuggingFaceCheckpoint>(path, *std::move(config), std::move(metadata),
                                                 std::move(weights));
}

}  // namespace headway
