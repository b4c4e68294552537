#include "runtime/main/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "gtest/gtest.h"

namespace headway {
namespace {

// Returns once the watcher has told of it.
void Signal(const Interrupt& interrupt, int number) {
  kill(getpid(), number);
  WaitReadable(interrupt.fd(), /*second=*/-1);
}

TEST(InterruptTest, CancelsCallsNowAndLater) {
  Interrupt interrupt;
  CallScope running(CallScope::DeadlineAfter(60));
  {
    const Interrupt::Cancels cancels(interrupt, running);
    EXPECT_FALSE(running.cancelled());
    Signal(interrupt, SIGINT);
    EXPECT_TRUE(running.cancelled());
  }
  CallScope later(CallScope::DeadlineAfter(60));
  const Interrupt::Cancels cancels(interrupt, later);
  EXPECT_TRUE(later.cancelled());
  interrupt.Forgive();
}

TEST(InterruptTest, QuietWithoutASignal) {
  for (int i = 0; i < 3; ++i) const Interrupt interrupt;
}

TEST(InterruptDeathTest, TheProcessDiesOfTheSignalAfterAllElse) {
  for (const int number : {SIGINT, SIGTERM}) {
    EXPECT_EXIT(
        {
          Interrupt interrupt;
          Signal(interrupt, number);
          std::fprintf(stderr, "put in order");
        },
        testing::KilledBySignal(number), "put in order");
  }
}

TEST(InterruptDeathTest, ASecondSignalEndsItAtOnce) {
  EXPECT_EXIT(
      {
        Interrupt interrupt;
        Signal(interrupt, SIGTERM);
        kill(getpid(), SIGINT);
        while (true) pause();
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignalDeathTest, WhatCameIsDroppedInTheEnd) {
  EXPECT_EXIT(
      {
        {
          StopSignal signal;
          kill(getpid(), SIGINT);
          signal.TakeFirst();
          kill(getpid(), SIGTERM);  // as a cluster's starter sends after ctrl-C
        }
        exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(StopSignalDeathTest, ASecondOfTheSameEndsTheProcess) {
  EXPECT_EXIT(
      {
        StopSignal signal;
        kill(getpid(), SIGTERM);
        signal.TakeFirst();
        kill(getpid(), SIGTERM);
        exit(0);
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace headway
