#include "runtime/main/output.h"

#include <cstdio>

namespace headway {

absl::Status FinishOutput() {
  // The flag is also set by a write that failed earlier, whose reason is gone by now.
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return absl::OkStatus();
  return absl::DataLossError(
      "standard output could not be written, so what was printed is not whole: send it to where "
      "there is room and a reader, and run this again");
}

}  // namespace headway
