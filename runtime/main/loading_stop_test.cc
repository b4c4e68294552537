#include "runtime/main/loading_stop.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/main/node_options.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsTrue;
using ::testing::ResultOf;

constexpr char kStub[] = "runtime/cluster/launcher_stub";

// Whether the process that `output` tells of has gone.
bool RankHasGone(const std::string& output) {
  const std::string before = "rank is process ";
  const size_t found = output.find(before);
  if (found == std::string::npos) return false;
  return kill(std::atoi(output.c_str() + found + before.size()), 0) != 0 && errno == ESRCH;
}

TEST(LoadingStopDeathTest, ASignalEndsTheProcessWhateverItIsIn) {
  for (const int number : {SIGINT, SIGTERM}) {
    EXPECT_EXIT(
        {
          StopSignal signal;
          const LoadingStop loading(signal);
          kill(getpid(), number);
          while (true) pause();
        },
        testing::KilledBySignal(number), "asked to stop by signal");
  }
}

TEST(LoadingStopTest, OnceItIsOverSignalsWait) {
  StopSignal signal;
  LoadingStop loading(signal);
  loading.Over();
  kill(getpid(), SIGTERM);
  EXPECT_EQ(signal.Take(), SIGTERM);
}

// The stub's rank never is ready, takes no SIGTERM, and sends its leader one.
TEST(LoadingStopDeathTest, ANodeThatWaitsForItsRanksEndsThemAndItself) {
  NodeMainOptions options{.tp = 2, .kv_blocks = 8, .rank_program = kStub};
  options.model.model = GoldenPath("models/llama_gqa_9_3");
  EXPECT_EXIT((void)RunNode(options), testing::KilledBySignal(SIGTERM),
              AllOf(HasSubstr("asked to stop by signal 15"), ResultOf(RankHasGone, IsTrue())));
}

}  // namespace
}  // namespace headway
