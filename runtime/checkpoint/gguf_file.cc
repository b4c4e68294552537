#include "runtime/checkpoint/gguf_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status.h"
#include "runtime/base/utf8.h"
#include "runtime/checkpoint/byte_reader.h"
#include "runtime/checkpoint/ggml_types.h"

namespace headway {
namespace {

constexpr uint32_t kLastType = static_cast<uint32_t>(GgufType::kFloat64);
constexpr uint32_t kMaxDimensions = 4;  // of GGML
constexpr uint64_t kMaxNameBytes = 65535;
constexpr int kMaxArrayDepth = 8;
constexpr uint64_t kDefaultAlignment = 32;
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr char kArrayLength[] = "the length of an array";

// Least bytes that one entry takes: a count beyond what the file has room for is refused before
// anything is kept for it.
constexpr uint64_t kLeastKeyBytes = 8 + 4 + 1;
constexpr uint64_t kLeastTensorBytes = 8 + 4 + 4 + 8;

absl::Status CheckName(std::string_view name) {
  if (name.empty()) return absl::InvalidArgumentError("an empty name");
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a name of ", name.size(), " bytes; the limit is ", kMaxNameBytes));
  }
  if (!IsUtf8(name)) {
    return absl::InvalidArgumentError(absl::StrCat("the name ", Quoted(name), " is not UTF-8"));
  }
  return absl::OkStatus();
}

absl::Status CheckCount(uint64_t count, uint64_t least_bytes, const ByteReader& reader,
                        const char* what) {
  if (count <= reader.remaining() / least_bytes) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the file claims ", count, " ", what, ", but the ", reader.remaining(),
                   " bytes that follow have no room for them; is it truncated?"));
}

absl::StatusOr<GgufType> ReadType(ByteReader& reader) {
  HEADWAY_ASSIGN_OR_RETURN(const uint32_t type, reader.Read<uint32_t>("the type of a value"));
  if (type > kLastType) {
    return absl::InvalidArgumentError(absl::StrCat("unknown value type ", type));
  }
  return static_cast<GgufType>(type);
}

absl::Status CheckBools(std::span<const std::byte> values) {
  for (const std::byte value : values) {
    if (std::to_integer<int>(value) > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("a boolean of value ", std::to_integer<int>(value)));
    }
  }
  return absl::OkStatus();
}

// Reads over `count` elements of an array, which is nested `depth` deep.
absl::Status SkipElements(ByteReader& reader, GgufType type, uint64_t count, int depth) {
  if (depth > kMaxArrayDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("arrays nested more than ", kMaxArrayDepth, " deep"));
  }
  const int scalar_bytes = GgufScalarBytes(type);
  const uint64_t least_bytes = scalar_bytes != 0           ? scalar_bytes
                               : type == GgufType::kString ? 8
                                                           : 12;
  HEADWAY_RETURN_IF_ERROR(CheckCount(count, least_bytes, reader, "array elements"));
  if (scalar_bytes != 0) {
    HEADWAY_ASSIGN_OR_RETURN(const auto bytes, reader.Take(count * scalar_bytes, "an array"));
    return type == GgufType::kBool ? CheckBools(bytes) : absl::OkStatus();
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (type == GgufType::kString) {
      HEADWAY_RETURN_IF_ERROR(reader.ReadString("a string of an array").status());
      continue;
    }
    HEADWAY_ASSIGN_OR_RETURN(const GgufType element_type, ReadType(reader));
    HEADWAY_ASSIGN_OR_RETURN(const uint64_t length, reader.Read<uint64_t>(kArrayLength));
    HEADWAY_RETURN_IF_ERROR(SkipElements(reader, element_type, length, depth + 1));
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufValue> ReadValue(ByteReader& reader, std::span<const std::byte> file) {
  GgufValue value;
  HEADWAY_ASSIGN_OR_RETURN(value.type, ReadType(reader));
  if (value.type == GgufType::kString) {
    HEADWAY_ASSIGN_OR_RETURN(const std::string_view text, reader.ReadString("a string"));
    value.bytes = std::as_bytes(std::span(text));
  } else if (value.type == GgufType::kArray) {
    HEADWAY_ASSIGN_OR_RETURN(value.element_type, ReadType(reader));
    HEADWAY_ASSIGN_OR_RETURN(value.count, reader.Read<uint64_t>(kArrayLength));
    const uint64_t begin = reader.position();
    HEADWAY_RETURN_IF_ERROR(SkipElements(reader, value.element_type, value.count, 1));
    value.bytes = file.subspan(begin, reader.position() - begin);
  } else {
    HEADWAY_ASSIGN_OR_RETURN(value.bytes, reader.Take(GgufScalarBytes(value.type), "a value"));
    if (value.type == GgufType::kBool) HEADWAY_RETURN_IF_ERROR(CheckBools(value.bytes));
  }
  return value;
}

absl::Status ReadKeys(ByteReader& reader, uint64_t count, std::span<const std::byte> file,
                      GgufContents& contents) {
  for (uint64_t i = 0; i < count; ++i) {
    const std::string ordinal = absl::StrCat("key ", i + 1, " of ", count);
    const absl::StatusOr<std::string_view> name = reader.ReadString("the name of a key");
    HEADWAY_RETURN_IF_ERROR(Annotate(name.status(), ordinal));
    HEADWAY_RETURN_IF_ERROR(Annotate(CheckName(*name), ordinal));
    absl::StatusOr<GgufValue> value = ReadValue(reader, file);
    HEADWAY_RETURN_IF_ERROR(Annotate(value.status(), absl::StrCat("key ", Quoted(*name))));
    if (!contents.keys.emplace(*name, *value).second) {
      return absl::InvalidArgumentError(absl::StrCat("key ", Quoted(*name), " stands twice"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ReadAlignment(const GgufContents& contents) {
  const auto found = contents.keys.find(kAlignmentKey);
  if (found == contents.keys.end()) return kDefaultAlignment;
  const GgufValue& value = found->second;
  if (value.type != GgufType::kUint32) {
    return absl::InvalidArgumentError(absl::StrCat("key ", Quoted(kAlignmentKey), " is a ",
                                                   std::string(GgufTypeName(value.type)),
                                                   ", wanted a uint32"));
  }
  uint32_t alignment;
  std::memcpy(&alignment, value.bytes.data(), sizeof(alignment));
  if (!std::has_single_bit(alignment)) {
    return absl::InvalidArgumentError(
        absl::StrCat("key ", Quoted(kAlignmentKey), " is ", alignment, ", wanted a power of two"));
  }
  return alignment;
}

// A tensor as its entry claims; `bytes` is not set yet.
struct Claim {
  std::string_view name;
  GgufTensor tensor;
  uint64_t offset = 0;  // from the start of the data
  uint64_t bytes = 0;
};

// Number of bytes of a tensor with this type and shape; 0 for an unknown type.
absl::StatusOr<uint64_t> TensorBytes(const GgufTensor& tensor) {
  int64_t elements = 1;
  for (const int64_t n : tensor.shape) {
    if (n < 0 || !MultiplyFits(elements, n, &elements)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the shape [", absl::StrJoin(tensor.shape, ", "), "] has more than 2^63 - 1 elements"));
    }
  }
  const GgmlType* type = FindGgmlType(tensor.type);
  if (type == nullptr) return 0;
  const int64_t row = tensor.shape.back();
  if (row % type->block_elements != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a row of ", row, " values is not whole blocks of ", type->block_elements,
                     ", as type ", type->name, " needs"));
  }
  int64_t bytes = 0;
  if (!MultiplyFits(elements / type->block_elements, type->block_bytes, &bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("the shape [", absl::StrJoin(tensor.shape, ", "),
                                                   "] takes more than 2^63 - 1 bytes"));
  }
  return static_cast<uint64_t>(bytes);
}

absl::Status ReadClaim(ByteReader& reader, Claim& claim) {
  HEADWAY_ASSIGN_OR_RETURN(const uint32_t dimensions,
                           reader.Read<uint32_t>("a number of dimensions"));
  if (dimensions == 0 || dimensions > kMaxDimensions) {
    return absl::InvalidArgumentError(
        absl::StrCat(dimensions, " dimensions; there must be 1 to ", kMaxDimensions));
  }
  for (uint32_t d = 0; d < dimensions; ++d) {
    HEADWAY_ASSIGN_OR_RETURN(const uint64_t n, reader.Read<uint64_t>("a dimension"));
    // No reader can use a tensor without values, and many divide by its dimensions.
    if (n == 0 || n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return absl::InvalidArgumentError(absl::StrCat("a dimension of ", n, " values"));
    }
    claim.tensor.shape.push_back(static_cast<int64_t>(n));
  }
  std::reverse(claim.tensor.shape.begin(), claim.tensor.shape.end());
  HEADWAY_ASSIGN_OR_RETURN(claim.tensor.type, reader.Read<uint32_t>("the type of a tensor"));
  HEADWAY_ASSIGN_OR_RETURN(claim.offset, reader.Read<uint64_t>("the offset of a tensor"));
  HEADWAY_ASSIGN_OR_RETURN(claim.bytes, TensorBytes(claim.tensor));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Claim>> ReadClaims(ByteReader& reader, uint64_t count) {
  std::vector<Claim> claims;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string ordinal = absl::StrCat("tensor ", i + 1, " of ", count);
    Claim claim;
    const absl::StatusOr<std::string_view> name = reader.ReadString("the name of a tensor");
    HEADWAY_RETURN_IF_ERROR(Annotate(name.status(), ordinal));
    HEADWAY_RETURN_IF_ERROR(Annotate(CheckName(*name), ordinal));
    claim.name = *name;
    HEADWAY_RETURN_IF_ERROR(
        Annotate(ReadClaim(reader, claim), absl::StrCat("tensor ", Quoted(*name))));
    claims.push_back(std::move(claim));
  }
  return claims;
}

// Gives each tensor its bytes of `data`; refuses those that lie outside, unaligned, or on
// another's.
absl::Status PlaceTensors(std::vector<Claim> claims, std::span<const std::byte> data,
                          uint64_t alignment, GgufContents& contents) {
  std::stable_sort(claims.begin(), claims.end(),
                   [](const Claim& a, const Claim& b) { return a.offset < b.offset; });
  uint64_t end_of_last = 0;
  std::string_view last;
  for (Claim& claim : claims) {
    const std::string tensor = absl::StrCat("tensor ", Quoted(claim.name));
    if (claim.offset % alignment != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          tensor, ": offset ", claim.offset, " is not a multiple of the alignment ", alignment));
    }
    if (claim.offset > data.size() || claim.bytes > data.size() - claim.offset) {
      return absl::DataLossError(absl::StrCat(tensor, ": ", claim.bytes, " bytes at offset ",
                                              claim.offset, " do not fit the ", data.size(),
                                              " bytes of data; is the file truncated?"));
    }
    if (claim.bytes != 0) {
      if (claim.offset < end_of_last) {
        return absl::InvalidArgumentError(absl::StrCat(tensor, ": its bytes from offset ",
                                                       claim.offset, " overlap those of tensor ",
                                                       Quoted(last)));
      }
      end_of_last = claim.offset + claim.bytes;
      last = claim.name;
    }
    claim.tensor.bytes = data.subspan(claim.offset, claim.bytes);
    if (!contents.tensors.emplace(claim.name, std::move(claim.tensor)).second) {
      return absl::InvalidArgumentError(absl::StrCat(tensor, " stands twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int GgufScalarBytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

std::string_view GgufTypeName(GgufType type) {
  static constexpr std::string_view kNames[] = {"uint8",  "int8",    "uint16",  "int16",  "uint32",
                                                "int32",  "float32", "boolean", "string", "array",
                                                "uint64", "int64",   "float64"};
  return kNames[static_cast<uint32_t>(type)];
}

absl::StatusOr<GgufContents> ParseGguf(std::span<const std::byte> file) {
  ByteReader reader(file);
  HEADWAY_ASSIGN_OR_RETURN(const auto magic, reader.Take(4, "the GGUF magic"));
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "not a GGUF file: it begins with ",
        Quoted({reinterpret_cast<const char*>(magic.data()), magic.size()}), ", not 'GGUF'"));
  }
  HEADWAY_ASSIGN_OR_RETURN(const uint32_t version, reader.Read<uint32_t>("the GGUF version"));
  if (version != 2 && version != 3) {
    const bool swapped = __builtin_bswap32(version) == 2 || __builtin_bswap32(version) == 3;
    return absl::InvalidArgumentError(
        swapped ? std::string("a big-endian GGUF file; only little-endian ones can be read")
                : absl::StrCat("GGUF version ", version, "; versions 2 and 3 can be read"));
  }
  HEADWAY_ASSIGN_OR_RETURN(const uint64_t tensors, reader.Read<uint64_t>("the number of tensors"));
  HEADWAY_ASSIGN_OR_RETURN(const uint64_t keys, reader.Read<uint64_t>("the number of keys"));

  GgufContents contents;
  HEADWAY_RETURN_IF_ERROR(CheckCount(keys, kLeastKeyBytes, reader, "keys"));
  HEADWAY_RETURN_IF_ERROR(ReadKeys(reader, keys, file, contents));
  contents.header = file.first(reader.position());
  HEADWAY_ASSIGN_OR_RETURN(const uint64_t alignment, ReadAlignment(contents));
  HEADWAY_RETURN_IF_ERROR(CheckCount(tensors, kLeastTensorBytes, reader, "tensors"));
  HEADWAY_ASSIGN_OR_RETURN(std::vector<Claim> claims, ReadClaims(reader, tensors));

  // A file without tensors may end without the padding before its data.
  const uint64_t padding = (alignment - reader.position() % alignment) % alignment;
  const uint64_t data_begin = reader.position() + std::min(padding, reader.remaining());
  HEADWAY_RETURN_IF_ERROR(
      PlaceTensors(std::move(claims), file.subspan(data_begin), alignment, contents));
  return contents;
}

}  // namespace headway
