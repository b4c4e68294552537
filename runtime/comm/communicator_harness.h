#ifndef HEADWAY_RUNTIME_COMM_COMMUNICATOR_HARNESS_H_
#define HEADWAY_RUNTIME_COMM_COMMUNICATOR_HARNESS_H_

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace headway {

// Where the ranks of a test run, and so which communicator joins them.
enum class RankForm {
  kLocalThreads,  // local_
  kShmThreads,    // shm_, every thread with its own mapping
  kShmProcesses,  // shm_, forked
};
inline constexpr RankForm kRankForms[] = {RankForm::kLocalThreads, RankForm::kShmThreads,
                                          RankForm::kShmProcesses};
std::ostream& operator<<(std::ostream& out, RankForm form);

// What one rank does. Returns what it found wrong, or nothing: it may run in another process, where
// an assertion would not be seen.
using RankProgram = std::function<std::string(Communicator&)>;

// The answer of a rank that was killed.
inline constexpr char kKilled[] = "(killed)";

// Runs `program` on `size` ranks at once and returns each rank's answer. A rank's communicator is
// destroyed when its program returns. No other thread may be running.
std::vector<std::string> RunRanks(RankForm form, int size, absl::Duration timeout,
                                  const RankProgram& program);

// Memory that the ranks of every form share, zeroed, 4096 bytes; for tests to watch each other.
class SharedPage {
 public:
  SharedPage();
  ~SharedPage();
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  template <class T>
  T& As() const {
    return *static_cast<T*>(address_);
  }

 private:
  void* address_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_COMM_COMMUNICATOR_HARNESS_H_
