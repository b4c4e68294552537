#ifndef HEADWAY_RUNTIME_MAIN_RANK_ARGUMENTS_H_
#define HEADWAY_RUNTIME_MAIN_RANK_ARGUMENTS_H_

#include <string>
#include <vector>

#include "runtime/main/rank_options.h"

namespace headway {

// The command line, after the program's name, that gives a `headway rank` these options (but for
// the ready descriptor, which the launcher adds).
std::vector<std::string> RankArguments(const RankMainOptions& options);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_RANK_ARGUMENTS_H_
