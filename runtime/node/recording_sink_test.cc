#include "runtime/node/recording_sink.h"

#include <thread>

#include "gtest/gtest.h"

namespace headway {
namespace {

TEST(RecordingSinkTest, WaitsUntilTheEndHoweverLongThatTakesWhileTokensCome) {
  RecordingSink sink;
  std::thread node([&] {
    for (int i = 0; i < 3; ++i) sink.OnToken({.index = i, .token = 7 + i});
    sink.OnDone(absl::CancelledError("left"));
  });
  sink.WaitForTokens(2);
  EXPECT_EQ(sink.Wait(), absl::CancelledError("left"));
  EXPECT_EQ(sink.tokens(), (std::vector<int32_t>{7, 8, 9}));
  node.join();
}

TEST(RecordingSinkDeathTest, ASequenceThatDoesNotEndIsAnErrorAndThenFatal) {
  EXPECT_DEATH(
      {
        RecordingSink sink(0.01);
        sink.OnToken({.token = 1});
        const absl::Status status = sink.Wait();
        if (absl::IsDeadlineExceeded(status)) fputs(std::string(status.message()).c_str(), stderr);
      },
      "no token and no end for 0.01 s, after 1 tokens");
}

TEST(AnswerDeathTest, AnAnswerThatDoesNotComeIsAnErrorAndThenFatal) {
  EXPECT_DEATH(
      {
        Answer<int> answer(0.01);
        if (absl::IsDeadlineExceeded(answer.Wait().status())) fputs("none came", stderr);
      },
      "none came");
}

}  // namespace
}  // namespace headway
