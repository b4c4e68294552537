#include "runtime/sched/admission.h"

#include <string>

#include "gmock/gmock.h"
#include "runtime/cluster/error_details.h"

namespace headway {
namespace {

using ::testing::HasSubstr;

constexpr QueueLimits kLimits = {.max_waiting = 2, .max_waiting_tokens = 100, .max_running = 3};

TEST(AdmissionTest, RefusesAtOnceWhatCanNeverFit) {
  absl::Status status = DecideEnqueue({.capacity_blocks = 10, .free_blocks = 10}, kLimits, 11, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("11"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("10"));
  EXPECT_EQ(RetryDelaySeconds(status), std::nullopt) << "later would be no better";
  EXPECT_TRUE(DecideEnqueue({.capacity_blocks = 10}, kLimits, 10, 1).ok());
}

TEST(AdmissionTest, BoundsTheQueueByCountAndByTokens) {
  EXPECT_TRUE(
      DecideEnqueue({.capacity_blocks = 9, .waiting = 1, .waiting_tokens = 40}, kLimits, 1, 60)
          .ok());
  for (const absl::Status& full : {
           DecideEnqueue({.capacity_blocks = 9, .waiting = 2}, kLimits, 1, 1),
           DecideEnqueue({.capacity_blocks = 9, .waiting = 1, .waiting_tokens = 40}, kLimits, 1,
                         61),
       }) {
    EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(full.message()), HasSubstr("retry in 1 s"));
    EXPECT_EQ(RetryDelaySeconds(full), 1.0);
  }
}

TEST(AdmissionTest, StartsWhenBlocksAndAPlaceAreFree) {
  EXPECT_TRUE(DecideStart({.free_blocks = 4, .running = 2}, kLimits, 4));
  EXPECT_FALSE(DecideStart({.free_blocks = 3, .running = 2}, kLimits, 4));
  EXPECT_FALSE(DecideStart({.free_blocks = 4, .running = 3}, kLimits, 4));
}

}  // namespace
}  // namespace headway
