#include "runtime/server/request_threads.h"

#include <atomic>
#include <latch>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway {
namespace {

constexpr double kNeverIdle = 3600;

TEST(RequestThreadsTest, RunsUpToTheLimitAtTheSameTimeAndNoMore) {
  std::atomic<int> ended = 0;
  {
    RequestThreads threads(3, kNeverIdle);
    std::latch all_run(3), release(1);
    for (int i = 0; i < 3; ++i) {
      // Each waits for the others: they would hang if they did not run at the same time.
      ASSERT_TRUE(threads
                      .Start([&] {
                        all_run.arrive_and_wait();
                        release.wait();
                        ++ended;
                      })
                      .ok());
    }
    all_run.wait();
    const absl::Status refused = threads.Start([&] { ended += 100; });
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("its limit is 3"));
    release.count_down();
  }
  EXPECT_EQ(ended, 3);
}

TEST(RequestThreadsTest, ReusesThreads) {
  std::set<std::thread::id> ids;
  RequestThreads threads(1, kNeverIdle);
  for (int i = 0; i < 20; ++i) {
    // The thread may still be on its way out of the task before.
    std::latch done(1);
    while (!threads
                .Start([&] {
                  ids.insert(std::this_thread::get_id());
                  done.count_down();
                })
                .ok()) {
      std::this_thread::yield();
    }
    done.wait();
  }
  EXPECT_EQ(ids.size(), 1u);
}

TEST(RequestThreadsTest, DropsWhatATaskHoldsBeforeItTakesAnother) {
  auto held = std::make_shared<int>(1);
  std::weak_ptr<int> watch = held;
  RequestThreads threads(1, kNeverIdle);
  std::latch done(1);
  ASSERT_TRUE(threads.Start([held = std::move(held)] {}).ok());
  while (!threads.Start([&] { done.count_down(); }).ok()) std::this_thread::yield();
  done.wait();
  EXPECT_TRUE(watch.expired());
}

TEST(RequestThreadsTest, IdleThreadsEndAndNewOnesComeWhenNeeded) {
  RequestThreads threads(8, /*idle_seconds=*/0);
  for (int round = 0; round < 3; ++round) {
    std::latch all_run(8), release(1);
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(threads
                      .Start([&] {
                        all_run.count_down();
                        release.wait();
                      })
                      .ok());
    }
    all_run.wait();
    EXPECT_EQ(threads.threads(), 8);
    release.count_down();
    while (threads.threads() > 0) std::this_thread::yield();
  }
}

}  // namespace
}  // namespace headway
