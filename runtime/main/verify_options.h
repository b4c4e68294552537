#ifndef HEADWAY_RUNTIME_MAIN_VERIFY_OPTIONS_H_
#define HEADWAY_RUNTIME_MAIN_VERIFY_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "runtime/main/model_options.h"

namespace headway {

// `headway verify`: the contract, checked on this machine and checkpoint.
struct VerifyMainOptions {
  ModelOptions model;
  std::string prompt;     // text; empty: a built-in one
  int prompt_tokens = 0;  // cut or repeated to this many; 0: as it is
  int max_tokens = 24;    // output tokens a row
  int max_degree = 3;     // rows at degrees 1 up to this
  uint64_t seed = 7;
  bool json = false;  // one object a row
};

// Prints the table to standard output. FailedPrecondition, naming the first differing row, position
// and layer, when any row differs.
absl::Status RunVerify(const VerifyMainOptions& options);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_VERIFY_OPTIONS_H_
