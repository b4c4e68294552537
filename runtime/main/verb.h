#ifndef HEADWAY_RUNTIME_MAIN_VERB_H_
#define HEADWAY_RUNTIME_MAIN_VERB_H_

#include <functional>

#include "absl/status/status.h"
#include "runtime/main/flags.h"

namespace headway {

// Carries a verb out, once its flags are parsed. Owns the variables that they were parsed into.
using VerbRunner = std::function<absl::Status()>;

// One word behind `headway`. Each has a file of its own, verb_NAME.cc.
struct Verb {
  Flags::About about;
  VerbRunner (*declare)(Flags& flags);  // adds the verb's flags
};

Verb UpVerb();
Verb RouterVerb();
Verb NodeVerb();
Verb RankVerb();
Verb GenerateVerb();
Verb ChatVerb();
Verb ScoreVerb();
Verb VerifyVerb();
Verb BudgetVerb();
Verb BenchVerb();

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_VERB_H_
