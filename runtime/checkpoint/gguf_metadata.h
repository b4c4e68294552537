#ifndef HEADWAY_RUNTIME_CHECKPOINT_GGUF_METADATA_H_
#define HEADWAY_RUNTIME_CHECKPOINT_GGUF_METADATA_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/checkpoint/gguf_file.h"
#include "runtime/checkpoint/metadata_values.h"

namespace headway {

// The keys of a GGUF file. Lists are read when they are asked for, so a vocabulary of any size
// costs nothing to open. The file must stay mapped.
class GgufMetadata : public MetadataValues {
 public:
  using Keys = std::map<std::string_view, GgufValue, std::less<>>;
  GgufMetadata(std::string source, Keys keys)
      : MetadataValues(std::move(source)), keys_(std::move(keys)) {}

 protected:
  std::optional<MetadataValue> Find(std::string_view key) const override;
  absl::Status VisitList(std::string_view key, const Visitor& visit) const override;

 private:
  Keys keys_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CHECKPOINT_GGUF_METADATA_H_
