#ifndef HEADWAY_RUNTIME_MODEL_CONFIG_READER_H_
#define HEADWAY_RUNTIME_MODEL_CONFIG_READER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/metadata.h"

namespace headway {

// Reads settings of a checkpoint within bounds. Every error names the key, the value and the
// limits; a missing required key is NotFound. A key whose value is null counts as absent.
class ConfigReader {
 public:
  explicit ConfigReader(const Metadata& metadata) : metadata_(metadata) {}

  bool Has(std::string_view key) const { return !key.empty() && metadata_.Has(key); }

  // An empty key is one that the format does not have: absent.
  absl::StatusOr<std::optional<int64_t>> OptionalInt(std::string_view key, int64_t least,
                                                     int64_t most) const;
  absl::StatusOr<std::optional<double>> OptionalDouble(std::string_view key, double least,
                                                       double most) const;
  absl::StatusOr<std::optional<bool>> OptionalBool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string>> OptionalString(std::string_view key) const;

  absl::StatusOr<int64_t> Int(std::string_view key, int64_t least, int64_t most) const;
  absl::StatusOr<double> Double(std::string_view key, double least, double most) const;

 private:
  const Metadata& metadata_;
};

// "[320, 64]", for messages.
std::string ShapeText(std::span<const int64_t> shape);

// What to say when `key` is not there.
absl::Status MissingKey(std::string_view key);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_CONFIG_READER_H_
