#include "runtime/server/request_threads.h"

#include <atomic>
#include <latch>
#include <memory>
#include <set>

#include "gtest/gtest.h"

namespace headway {
namespace {

TEST(RequestThreadsTest, RunsUpToTheLimitAtTheSameTimeAndNoMore) {
  std::atomic<int> ended = 0;
  {
    RequestThreads threads(3);
    std::latch all_run(3), release(1);
    for (int i = 0; i < 3; ++i) {
      // Each waits for the others: they would hang if they did not run at the same time.
      ASSERT_TRUE(threads.TryStart([&] {
        all_run.arrive_and_wait();
        release.wait();
        ++ended;
      }));
    }
    all_run.wait();
    EXPECT_FALSE(threads.TryStart([&] { ended += 100; }));
    release.count_down();
  }
  EXPECT_EQ(ended, 3);
}

TEST(RequestThreadsTest, ReusesThreads) {
  std::set<std::thread::id> ids;
  RequestThreads threads(1);
  for (int i = 0; i < 20; ++i) {
    // The thread may still be on its way out of the task before.
    std::latch done(1);
    while (!threads.TryStart([&] {
      ids.insert(std::this_thread::get_id());
      done.count_down();
    })) {
      std::this_thread::yield();
    }
    done.wait();
  }
  EXPECT_EQ(ids.size(), 1u);
}

TEST(RequestThreadsTest, DropsWhatATaskHoldsBeforeItTakesAnother) {
  auto held = std::make_shared<int>(1);
  std::weak_ptr<int> watch = held;
  RequestThreads threads(1);
  std::latch done(1);
  ASSERT_TRUE(threads.TryStart([held = std::move(held)] {}));
  while (!threads.TryStart([&] { done.count_down(); })) std::this_thread::yield();
  done.wait();
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace headway
