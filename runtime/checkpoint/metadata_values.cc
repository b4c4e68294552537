#include "runtime/checkpoint/metadata_values.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/utf8.h"

namespace headway {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();

// What `value` is, for an error message.
std::string Describe(const MetadataValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, Compound>) {
          return v.description;
        } else if constexpr (std::is_same_v<T, bool>) {
          return v ? "true" : "false";
        } else if constexpr (std::is_same_v<T, std::string_view>) {
          return absl::StrCat("the text ", Quoted(v));
        } else {
          return absl::StrCat(v);
        }
      },
      value);
}

// The conversions. Each gives none where something would be lost.

std::optional<int64_t> Convert(const MetadataValue& value, int64_t) {
  if (const auto* v = std::get_if<int64_t>(&value)) return *v;
  if (const auto* v = std::get_if<uint64_t>(&value)) {
    if (*v <= static_cast<uint64_t>(kMaxInt)) return static_cast<int64_t>(*v);
  }
  if (const auto* v = std::get_if<double>(&value)) {
    // -2^63 is a double, 2^63 - 1 is not: the range is half open. NaN fails both comparisons.
    if (*v >= -0x1p63 && *v < 0x1p63 && *v == std::trunc(*v)) return static_cast<int64_t>(*v);
  }
  return std::nullopt;
}

std::optional<double> Convert(const MetadataValue& value, double) {
  if (const auto* v = std::get_if<double>(&value)) {
    if (std::isfinite(*v)) return *v;
  }
  if (const std::optional<int64_t> v = Convert(value, int64_t{})) {
    const double converted = static_cast<double>(*v);
    if (converted < 0x1p63 && static_cast<int64_t>(converted) == *v) return converted;
  }
  return std::nullopt;
}

std::optional<bool> Convert(const MetadataValue& value, bool) {
  if (const auto* v = std::get_if<bool>(&value)) return *v;
  return std::nullopt;
}

std::optional<std::string> Convert(const MetadataValue& value, const std::string&) {
  if (const auto* v = std::get_if<std::string_view>(&value)) return std::string(*v);
  return std::nullopt;
}

template <class T>
std::string_view Wanted(bool list) {
  if constexpr (std::is_same_v<T, int64_t>) return list ? "a list of integers" : "an integer";
  if constexpr (std::is_same_v<T, double>) {
    return list ? "a list of finite numbers" : "a finite number";
  }
  if constexpr (std::is_same_v<T, bool>) return list ? "a list of booleans" : "true or false";
  if constexpr (std::is_same_v<T, std::string>) return list ? "a list of texts" : "text";
}

template <class T>
absl::Status Mismatch(std::string_view source, const std::string& place, const MetadataValue& value,
                      bool list) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(source), ": ", place, " is ",
                                                 Describe(value), ", wanted ",
                                                 std::string(Wanted<T>(list))));
}

absl::Status NoSuchKey(std::string_view source, std::string_view key) {
  return absl::NotFoundError(absl::StrCat(std::string(source), ": there is no key ", Quoted(key)));
}

}  // namespace

template <class T>
absl::StatusOr<T> MetadataValues::One(std::string_view key) const {
  const std::optional<MetadataValue> value = Find(key);
  if (!value) return NoSuchKey(source_, key);
  std::optional<T> converted = Convert(*value, T{});
  if (converted) return *std::move(converted);
  return Mismatch<T>(source_, absl::StrCat("key ", Quoted(key)), *value, /*list=*/false);
}

template <class T>
absl::StatusOr<std::vector<T>> MetadataValues::Many(std::string_view key) const {
  const std::optional<MetadataValue> value = Find(key);
  if (!value) return NoSuchKey(source_, key);
  const auto* list = std::get_if<Compound>(&*value);
  if (list == nullptr || !list->is_list) {
    return Mismatch<T>(source_, absl::StrCat("key ", Quoted(key)), *value, /*list=*/true);
  }
  std::vector<T> elements;
  elements.reserve(list->size);
  HEADWAY_RETURN_IF_ERROR(VisitList(key, [&](const MetadataValue& element) {
    std::optional<T> converted = Convert(element, T{});
    if (!converted) {
      return Mismatch<T>(source_,
                         absl::StrCat("element ", elements.size(), " of key ", Quoted(key)),
                         element, /*list=*/false);
    }
    elements.push_back(*std::move(converted));
    return absl::OkStatus();
  }));
  return elements;
}

bool MetadataValues::Has(std::string_view key) const { return Find(key).has_value(); }

absl::StatusOr<int64_t> MetadataValues::Int(std::string_view key) const {
  return One<int64_t>(key);
}

absl::StatusOr<double> MetadataValues::Double(std::string_view key) const {
  return One<double>(key);
}

absl::StatusOr<bool> MetadataValues::Bool(std::string_view key) const { return One<bool>(key); }

absl::StatusOr<std::string> MetadataValues::String(std::string_view key) const {
  return One<std::string>(key);
}

absl::StatusOr<std::vector<std::string>> MetadataValues::Strings(std::string_view key) const {
  return Many<std::string>(key);
}

absl::StatusOr<std::vector<int64_t>> MetadataValues::Ints(std::string_view key) const {
  return Many<int64_t>(key);
}

absl::StatusOr<std::vector<double>> MetadataValues::Doubles(std::string_view key) const {
  return Many<double>(key);
}

}  // namespace headway
