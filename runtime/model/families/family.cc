#include "runtime/model/families/family.h"

#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/base/utf8.h"
#include "runtime/model/config_reader.h"
#include "runtime/model/families/llama.h"

namespace headway {
namespace {

constexpr const Family* kFamilies[] = {&kLlamaFamily};

using Name = std::string_view Family::*;

absl::Status UnknownArchitecture(std::string_view key, std::string_view value, Name name) {
  std::string known;
  for (const Family* family : Families()) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", ToAbsl(family->*name));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(ToAbsl(key), " is ", Quoted(value), ", which cannot be served; known: ", known));
}

const Family* Find(Name name, std::string_view value) {
  for (const Family* family : Families()) {
    if (family->*name == value) return family;
  }
  return nullptr;
}

}  // namespace

std::string TensorNames::Layer(int layer, std::string_view tensor, std::string_view suffix) const {
  return absl::StrCat(ToAbsl(layer_prefix), layer, ".", ToAbsl(tensor), ToAbsl(suffix));
}

std::span<const Family* const> Families() { return kFamilies; }

absl::StatusOr<const Family*> FindFamily(const Checkpoint& checkpoint) {
  const Metadata& metadata = checkpoint.metadata();
  const bool gguf = checkpoint.kind() == Checkpoint::Kind::kGguf;
  std::string_view key = gguf ? "general.architecture" : "model_type";
  Name name = gguf ? &Family::gguf_architecture : &Family::hugging_face_type;
  std::string value;
  if (!gguf && metadata.Has("architectures")) {
    key = "architectures";
    name = &Family::hugging_face_class;
    HEADWAY_ASSIGN_OR_RETURN(const std::vector<std::string> classes, metadata.Strings(key));
    if (!classes.empty()) value = classes[0];
  } else {
    if (!metadata.Has(key)) return MissingKey(key);
    HEADWAY_ASSIGN_OR_RETURN(value, metadata.String(key));
  }
  if (const Family* family = Find(name, value)) return family;
  return UnknownArchitecture(key, value, name);
}

absl::StatusOr<const Family*> FindFamily(std::string_view name) {
  if (const Family* family = Find(&Family::name, name)) return family;
  return absl::NotFoundError(absl::StrCat("no model family is called \"", ToAbsl(name), "\""));
}

}  // namespace headway
