#ifndef HEADWAY_RUNTIME_CHECKPOINT_METADATA_H_
#define HEADWAY_RUNTIME_CHECKPOINT_METADATA_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace headway {

// One view over the keys of a GGUF file ("llama.block_count") and of config.json
// ("rope_scaling.factor": a dot descends into an object; null is as good as absent). Getters
// convert between number types where nothing is lost, and refuse NaN and infinities. Immutable and
// thread-safe.
class Metadata {
 public:
  virtual ~Metadata() = default;
  virtual bool Has(std::string_view key) const = 0;
  // NotFound names the key; InvalidArgument names the key, its value and the type that was wanted.
  virtual absl::StatusOr<int64_t> Int(std::string_view key) const = 0;
  virtual absl::StatusOr<double> Double(std::string_view key) const = 0;
  virtual absl::StatusOr<bool> Bool(std::string_view key) const = 0;
  virtual absl::StatusOr<std::string> String(std::string_view key) const = 0;
  virtual absl::StatusOr<std::vector<std::string>> Strings(std::string_view key) const = 0;
  virtual absl::StatusOr<std::vector<int64_t>> Ints(std::string_view key) const = 0;
  virtual absl::StatusOr<std::vector<double>> Doubles(std::string_view key) const = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CHECKPOINT_METADATA_H_
