#ifndef HEADWAY_RUNTIME_MODEL_FAMILIES_LLAMA_H_
#define HEADWAY_RUNTIME_MODEL_FAMILIES_LLAMA_H_

#include "runtime/model/families/family.h"

namespace headway {

// Llama 1 to 3, SmolLM 1 and 2, and whatever else is published as LlamaForCausalLM.
extern const Family kLlamaFamily;

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_FAMILIES_LLAMA_H_
