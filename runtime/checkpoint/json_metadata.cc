#include "runtime/checkpoint/json_metadata.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/json.h"
#include "runtime/base/status.h"

namespace headway {
namespace {

using nlohmann::json;

MetadataValue ValueOf(const json& value) {
  switch (value.type()) {
    case json::value_t::boolean:
      return value.get<bool>();
    case json::value_t::number_integer:
      return value.get<int64_t>();
    case json::value_t::number_unsigned:
      return value.get<uint64_t>();
    case json::value_t::number_float:
      return value.get<double>();
    case json::value_t::string:
      return std::string_view(value.get_ref<const std::string&>());
    case json::value_t::array:
      return Compound{true, static_cast<int64_t>(value.size()),
                      absl::StrCat("a list of ", value.size(), " values")};
    case json::value_t::object:
      return Compound{false, 0, "an object"};
    default:
      return Compound{false, 0, "null"};
  }
}

}  // namespace

JsonMetadata::JsonMetadata(std::string source, json root)
    : MetadataValues(std::move(source)), root_(std::make_unique<json>(std::move(root))) {}

JsonMetadata::~JsonMetadata() = default;

absl::StatusOr<std::unique_ptr<JsonMetadata>> JsonMetadata::Parse(std::string source,
                                                                  std::string_view text) {
  absl::StatusOr<json> root = ParseJson(text);
  HEADWAY_RETURN_IF_ERROR(Annotate(root.status(), source));
  if (!root->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": wanted a JSON object, found a value of type ", root->type_name()));
  }
  return std::unique_ptr<JsonMetadata>(new JsonMetadata(std::move(source), *std::move(root)));
}

const json* JsonMetadata::Descend(std::string_view key) const {
  const json* value = root_.get();
  while (true) {
    if (!value->is_object()) return nullptr;
    const size_t dot = key.find('.');
    const auto found = value->find(std::string(key.substr(0, dot)));
    if (found == value->end() || found->is_null()) return nullptr;
    value = &*found;
    if (dot == key.npos) return value;
    key.remove_prefix(dot + 1);
  }
}

std::optional<MetadataValue> JsonMetadata::Find(std::string_view key) const {
  const json* value = Descend(key);
  if (value == nullptr) return std::nullopt;
  return ValueOf(*value);
}

absl::Status JsonMetadata::VisitList(std::string_view key, const Visitor& visit) const {
  for (const json& element : *Descend(key)) HEADWAY_RETURN_IF_ERROR(visit(ValueOf(element)));
  return absl::OkStatus();
}

}  // namespace headway
