#ifndef HEADWAY_RUNTIME_MAIN_MODEL_FLAGS_H_
#define HEADWAY_RUNTIME_MAIN_MODEL_FLAGS_H_

#include <string>
#include <vector>

#include "runtime/main/flags.h"
#include "runtime/main/model_options.h"

namespace headway {

// Adds --model, --kv-dtype, --activations, --kernels and --threads. `model_required`: whether the
// verb does nothing without a model.
void AddModelFlags(Flags& flags, bool model_required, ModelOptions* options);

// Adds --kv-dtype, for what `help` says; its default is the value that `dtype` has.
void AddKvDTypeFlag(Flags& flags, DType* dtype, const std::string& help);

// The flags, other than --model, that make another process of this binary parse the same options.
std::vector<std::string> ModelFlagsOf(const ModelOptions& options);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_MODEL_FLAGS_H_
