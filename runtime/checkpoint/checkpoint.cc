#include "runtime/checkpoint/checkpoint.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "runtime/checkpoint/gguf_checkpoint.h"
#include "runtime/checkpoint/huggingface_checkpoint.h"

namespace headway {

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path) {
  const std::filesystem::path file(path);
  std::error_code ignored;  // what cannot be examined cannot be opened either, which is reported
  if (std::filesystem::is_directory(file, ignored)) return OpenHuggingFace(path);
  if (file.extension() == ".safetensors" || file.extension() == ".json") {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": name the folder that holds this file, or a GGUF file"));
  }
  return OpenGguf(path);
}

}  // namespace headway
