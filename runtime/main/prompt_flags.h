#ifndef HEADWAY_RUNTIME_MAIN_PROMPT_FLAGS_H_
#define HEADWAY_RUNTIME_MAIN_PROMPT_FLAGS_H_

#include "proto/headway/v1/inference.pb.h"
#include "runtime/main/flags.h"

namespace headway {

// Adds --prompt, --prompt-ids, --chat and --system; exactly one of the first three must be given.
void AddPromptFlags(Flags& flags, v1::Prompt* prompt);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_PROMPT_FLAGS_H_
