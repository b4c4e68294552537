#include "runtime/checkpoint/gguf_metadata.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/byte_reader.h"

namespace headway {
namespace {

template <class T>
T Load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// A value of a type with a fixed size.
MetadataValue Scalar(GgufType type, const std::byte* bytes) {
  switch (type) {
    case GgufType::kUint8:
      return int64_t{Load<uint8_t>(bytes)};
    case GgufType::kInt8:
      return int64_t{Load<int8_t>(bytes)};
    case GgufType::kUint16:
      return int64_t{Load<uint16_t>(bytes)};
    case GgufType::kInt16:
      return int64_t{Load<int16_t>(bytes)};
    case GgufType::kUint32:
      return int64_t{Load<uint32_t>(bytes)};
    case GgufType::kInt32:
      return int64_t{Load<int32_t>(bytes)};
    case GgufType::kFloat32:
      return double{Load<float>(bytes)};
    case GgufType::kBool:
      return Load<uint8_t>(bytes) != 0;
    case GgufType::kUint64:
      return Load<uint64_t>(bytes);
    case GgufType::kInt64:
      return Load<int64_t>(bytes);
    case GgufType::kFloat64:
      return Load<double>(bytes);
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return Compound{};
}

}  // namespace

std::optional<MetadataValue> GgufMetadata::Find(std::string_view key) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return std::nullopt;
  const GgufValue& value = found->second;
  if (value.type == GgufType::kString) {
    return std::string_view(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  }
  if (value.type == GgufType::kArray) {
    return Compound{true, static_cast<int64_t>(value.count),
                    absl::StrCat("a list of ", value.count, " values of type ",
                                 std::string(GgufTypeName(value.element_type)))};
  }
  return Scalar(value.type, value.bytes.data());
}

absl::Status GgufMetadata::VisitList(std::string_view key, const Visitor& visit) const {
  const GgufValue& list = keys_.find(key)->second;
  if (list.element_type == GgufType::kArray) {
    // No known key has them; they are checked when the file is opened and never read.
    return list.count == 0 ? absl::OkStatus() : visit(Compound{true, 0, "a list"});
  }
  if (list.element_type == GgufType::kString) {
    ByteReader reader(list.bytes);
    for (uint64_t i = 0; i < list.count; ++i) {
      HEADWAY_ASSIGN_OR_RETURN(const std::string_view text, reader.ReadString("a string"));
      HEADWAY_RETURN_IF_ERROR(visit(text));
    }
    return absl::OkStatus();
  }
  const int element_bytes = GgufScalarBytes(list.element_type);
  for (uint64_t i = 0; i < list.count; ++i) {
    HEADWAY_RETURN_IF_ERROR(
        visit(Scalar(list.element_type, list.bytes.data() + i * element_bytes)));
  }
  return absl::OkStatus();
}

}  // namespace headway
