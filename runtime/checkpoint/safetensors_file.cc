#include "runtime/checkpoint/safetensors_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/json.h"
#include "runtime/base/status.h"
#include "runtime/base/utf8.h"
#include "runtime/checkpoint/byte_reader.h"

namespace headway {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

// Bytes of one value; none for a type that is not known here.
std::optional<int> ValueBytes(std::string_view dtype) {
  static constexpr std::pair<std::string_view, int> kBytes[] = {
      {"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
      {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},
      {"U64", 8},     {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1}};
  for (const auto& [name, bytes] : kBytes) {
    if (name == dtype) return bytes;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<int64_t>> NaturalNumbers(const json& entry, const char* field) {
  const auto found = entry.find(field);
  if (found == entry.end() || !found->is_array()) {
    return absl::InvalidArgumentError(absl::StrCat("'", field, "' is missing or not a list"));
  }
  std::vector<int64_t> numbers;
  for (const json& number : *found) {
    // Unsigned is what the parser makes of a whole number without a sign.
    if (!number.is_number_unsigned() ||
        number.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", field, "' holds something else than whole numbers below 2^63"));
    }
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

absl::StatusOr<SafetensorsEntry> ReadEntry(const json& value, std::span<const std::byte> data) {
  if (!value.is_object()) return absl::InvalidArgumentError("its description is not an object");
  SafetensorsEntry entry;
  const auto dtype = value.find("dtype");
  if (dtype == value.end() || !dtype->is_string()) {
    return absl::InvalidArgumentError("'dtype' is missing or not text");
  }
  entry.dtype = dtype->get<std::string>();
  HEADWAY_ASSIGN_OR_RETURN(entry.shape, NaturalNumbers(value, "shape"));
  HEADWAY_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets,
                           NaturalNumbers(value, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'data_offsets' is [", absl::StrJoin(offsets, ", "), "], wanted begin and end, ascending"));
  }
  const uint64_t begin = offsets[0];
  const uint64_t end = offsets[1];
  if (end > data.size()) {
    return absl::DataLossError(absl::StrCat("its bytes ", begin, " to ", end, " do not fit the ",
                                            data.size(), " bytes of data; is the file truncated?"));
  }
  entry.bytes = data.subspan(begin, end - begin);

  const std::optional<int> value_bytes = ValueBytes(entry.dtype);
  if (!value_bytes) return entry;
  int64_t wanted = *value_bytes;
  for (const int64_t n : entry.shape) {
    if (!MultiplyFits(wanted, n, &wanted)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the shape [", absl::StrJoin(entry.shape, ", "), "] takes more than 2^63 - 1 bytes"));
    }
  }
  if (static_cast<uint64_t>(wanted) != entry.bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the shape [", absl::StrJoin(entry.shape, ", "), "] of type ", Quoted(entry.dtype),
        " takes ", wanted, " bytes, but 'data_offsets' spans ", entry.bytes.size()));
  }
  return entry;
}

// Tensors must fill the data exactly: a gap or an overlap means that offsets or shapes are wrong.
absl::Status CheckTiling(const SafetensorsEntries& entries, std::span<const std::byte> data) {
  std::vector<std::pair<std::span<const std::byte>, const std::string*>> order;
  for (const auto& [name, entry] : entries) order.emplace_back(entry.bytes, &name);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.data(), a.first.size()) < std::pair(b.first.data(), b.first.size());
  });
  const std::byte* end = data.data();
  for (const auto& [bytes, name] : order) {
    if (bytes.data() != end) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", Quoted(*name), ": its bytes from ", bytes.data() - data.data(),
                       bytes.data() < end ? " overlap another tensor, which ends at "
                                          : " leave a gap after the tensor before, which ends at ",
                       end - data.data()));
    }
    end += bytes.size();
  }
  const int64_t unused = data.data() + data.size() - end;
  if (unused == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(unused, " bytes after the last tensor belong to none"));
}

}  // namespace

absl::StatusOr<SafetensorsEntries> ParseSafetensors(std::span<const std::byte> file) {
  ByteReader reader(file);
  HEADWAY_ASSIGN_OR_RETURN(const uint64_t length,
                           reader.Read<uint64_t>("the length of the safetensors header"));
  if (length > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("not a safetensors file: its header would have ",
                                                   length, " bytes; the limit is ",
                                                   kMaxHeaderBytes));
  }
  HEADWAY_ASSIGN_OR_RETURN(const auto text, reader.Take(length, "the safetensors header"));
  const std::span<const std::byte> data = file.subspan(reader.position());
  absl::StatusOr<json> header =
      ParseJson({reinterpret_cast<const char*>(text.data()), text.size()});
  HEADWAY_RETURN_IF_ERROR(Annotate(header.status(), "the safetensors header"));
  if (!header->is_object()) {
    return absl::InvalidArgumentError("the safetensors header is not a JSON object");
  }
  SafetensorsEntries entries;
  for (const auto& [name, value] : header->items()) {
    if (name == "__metadata__") continue;
    absl::StatusOr<SafetensorsEntry> entry = ReadEntry(value, data);
    HEADWAY_RETURN_IF_ERROR(Annotate(entry.status(), absl::StrCat("tensor ", Quoted(name))));
    entries.emplace(name, *std::move(entry));
  }
  HEADWAY_RETURN_IF_ERROR(CheckTiling(entries, data));
  return entries;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  HEADWAY_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  absl::StatusOr<SafetensorsEntries> entries = ParseSafetensors(file.bytes());
  HEADWAY_RETURN_IF_ERROR(Annotate(entries.status(), path));
  return SafetensorsFile(std::move(file), *std::move(entries));
}

const SafetensorsEntry* SafetensorsFile::Find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

}  // namespace headway
