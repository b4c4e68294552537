#ifndef HEADWAY_RUNTIME_CHECKPOINT_METADATA_VALUES_H_
#define HEADWAY_RUNTIME_CHECKPOINT_METADATA_VALUES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/metadata.h"

namespace headway {

// A value that is no scalar.
struct Compound {
  bool is_list = false;
  int64_t size = 0;         // elements of a list
  std::string description;  // "a list of 3 values", "an object"
};

// What a key, or an element of a list, holds. Text lies where the metadata keeps it.
using MetadataValue = std::variant<Compound, bool, int64_t, uint64_t, double, std::string_view>;

// The conversions and error messages of Metadata, the same for every kind of file. A subclass only
// says what a key holds.
class MetadataValues : public Metadata {
 public:
  bool Has(std::string_view key) const override;
  absl::StatusOr<int64_t> Int(std::string_view key) const override;
  absl::StatusOr<double> Double(std::string_view key) const override;
  absl::StatusOr<bool> Bool(std::string_view key) const override;
  absl::StatusOr<std::string> String(std::string_view key) const override;
  absl::StatusOr<std::vector<std::string>> Strings(std::string_view key) const override;
  absl::StatusOr<std::vector<int64_t>> Ints(std::string_view key) const override;
  absl::StatusOr<std::vector<double>> Doubles(std::string_view key) const override;

 protected:
  using Visitor = std::function<absl::Status(const MetadataValue&)>;

  // `source` names the file in messages.
  explicit MetadataValues(std::string source) : source_(std::move(source)) {}
  // None when there is no such key.
  virtual std::optional<MetadataValue> Find(std::string_view key) const = 0;
  // Calls `visit` for each element of the list at `key`, in order, until it fails. The key exists
  // and is a list.
  virtual absl::Status VisitList(std::string_view key, const Visitor& visit) const = 0;

 private:
  template <class T>
  absl::StatusOr<T> One(std::string_view key) const;
  template <class T>
  absl::StatusOr<std::vector<T>> Many(std::string_view key) const;

  std::string source_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CHECKPOINT_METADATA_VALUES_H_
