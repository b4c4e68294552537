#ifndef HEADWAY_TESTS_FUZZ_USE_CHECKPOINT_H_
#define HEADWAY_TESTS_FUZZ_USE_CHECKPOINT_H_

#include <string_view>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/metadata.h"

namespace headway::fuzz {

// Asks for `key` in every type there is.
void UseKey(const Metadata& metadata, std::string_view key);

// Reads every tensor that can be used, to its last byte.
void UseTensors(const Checkpoint& checkpoint);

}  // namespace headway::fuzz

#endif  // HEADWAY_TESTS_FUZZ_USE_CHECKPOINT_H_
