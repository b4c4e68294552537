#ifndef HEADWAY_RUNTIME_CHECKPOINT_HUGGINGFACE_CHECKPOINT_H_
#define HEADWAY_RUNTIME_CHECKPOINT_HUGGINGFACE_CHECKPOINT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/checkpoint.h"

namespace headway {

// Opens the Hugging Face folder `path`; see Checkpoint::Open.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenHuggingFace(const std::string& path);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CHECKPOINT_HUGGINGFACE_CHECKPOINT_H_
