#ifndef HEADWAY_RUNTIME_CHECKPOINT_JSON_METADATA_H_
#define HEADWAY_RUNTIME_CHECKPOINT_JSON_METADATA_H_

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/metadata_values.h"

namespace headway {

// The keys of a JSON object, such as config.json. A dot descends into an object; null is as good as
// absent.
class JsonMetadata : public MetadataValues {
 public:
  // InvalidArgument, beginning with `source`, when `text` is not a JSON object.
  static absl::StatusOr<std::unique_ptr<JsonMetadata>> Parse(std::string source,
                                                             std::string_view text);
  ~JsonMetadata() override;

 protected:
  std::optional<MetadataValue> Find(std::string_view key) const override;
  absl::Status VisitList(std::string_view key, const Visitor& visit) const override;

 private:
  JsonMetadata(std::string source, nlohmann::json root);
  const nlohmann::json* Descend(std::string_view key) const;

  std::unique_ptr<nlohmann::json> root_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CHECKPOINT_JSON_METADATA_H_
