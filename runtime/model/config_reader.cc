#include "runtime/model/config_reader.h"

#include "runtime/base/status.h"
#include "runtime/base/strings.h"

namespace headway {
namespace {

template <class T>
absl::Status OutOfRange(std::string_view key, T value, T least, T most) {
  return absl::InvalidArgumentError(
      absl::StrCat(ToAbsl(key), " is ", value, "; it must be from ", least, " to ", most));
}

}  // namespace

absl::Status MissingKey(std::string_view key) {
  return absl::NotFoundError(absl::StrCat("the checkpoint has no ", ToAbsl(key)));
}

std::string ShapeText(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t dimension : shape) {
    absl::StrAppend(&text, text.size() == 1 ? "" : ", ", dimension);
  }
  return text + "]";
}

absl::StatusOr<std::optional<int64_t>> ConfigReader::OptionalInt(std::string_view key,
                                                                 int64_t least,
                                                                 int64_t most) const {
  if (!Has(key)) return std::nullopt;
  HEADWAY_ASSIGN_OR_RETURN(const int64_t value, metadata_.Int(key));
  if (value < least || value > most) return OutOfRange(key, value, least, most);
  return value;
}

absl::StatusOr<std::optional<double>> ConfigReader::OptionalDouble(std::string_view key,
                                                                   double least,
                                                                   double most) const {
  if (!Has(key)) return std::nullopt;
  HEADWAY_ASSIGN_OR_RETURN(const double value, metadata_.Double(key));
  // Negated, so that NaN is refused too.
  if (!(value >= least && value <= most)) return OutOfRange(key, value, least, most);
  return value;
}

absl::StatusOr<std::optional<bool>> ConfigReader::OptionalBool(std::string_view key) const {
  if (!Has(key)) return std::nullopt;
  HEADWAY_ASSIGN_OR_RETURN(const bool value, metadata_.Bool(key));
  return value;
}

absl::StatusOr<std::optional<std::string>> ConfigReader::OptionalString(
    std::string_view key) const {
  if (!Has(key)) return std::nullopt;
  HEADWAY_ASSIGN_OR_RETURN(std::string value, metadata_.String(key));
  return value;
}

absl::StatusOr<int64_t> ConfigReader::Int(std::string_view key, int64_t least, int64_t most) const {
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<int64_t> value, OptionalInt(key, least, most));
  if (!value) return MissingKey(key);
  return *value;
}

absl::StatusOr<double> ConfigReader::Double(std::string_view key, double least, double most) const {
  HEADWAY_ASSIGN_OR_RETURN(const std::optional<double> value, OptionalDouble(key, least, most));
  if (!value) return MissingKey(key);
  return *value;
}

}  // namespace headway
