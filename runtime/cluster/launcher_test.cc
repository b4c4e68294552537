#include "runtime/cluster/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/cluster/output_tail.h"
#include "runtime/cluster/ready_line.h"
#include "runtime/cluster/spawn.h"

namespace headway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kLong = absl::Seconds(30);

std::unique_ptr<Launcher> NewLauncher(absl::Duration grace = kLong) {
  absl::StatusOr<std::unique_ptr<Launcher>> launcher =
      Launcher::Create({.program = "runtime/cluster/launcher_stub", .grace = grace});
  EXPECT_TRUE(launcher.ok()) << launcher.status();
  return *std::move(launcher);
}

int StartStub(Launcher& launcher, std::vector<std::string> args, std::string name = "stub") {
  absl::StatusOr<int> child = launcher.Start({.name = std::move(name), .args = std::move(args)});
  EXPECT_TRUE(child.ok()) << child.status();
  return *child;
}

bool Exists(pid_t pid) { return kill(pid, 0) == 0 || errno != ESRCH; }

bool Readable(int fd, int timeout_ms) {
  pollfd wait{fd, POLLIN, 0};
  return poll(&wait, 1, timeout_ms) == 1;
}

TEST(LauncherTest, ReportsTheAddressOfEachChild) {
  auto launcher = NewLauncher();
  const int first = StartStub(*launcher, {"serve", "127.0.0.1:11"});
  const int second = StartStub(*launcher, {"serve", "127.0.0.1:22"});
  EXPECT_EQ(*launcher->WaitReady(second, kLong), "127.0.0.1:22");
  EXPECT_EQ(*launcher->WaitReady(first, kLong), "127.0.0.1:11");
  EXPECT_EQ(*launcher->WaitReady(first, kLong), "127.0.0.1:11") << "may be asked again";
  EXPECT_TRUE(launcher->failure().ok());
}

TEST(LauncherTest, StopEndsTheNamedChildrenAlone) {
  auto launcher = NewLauncher();
  const int first = StartStub(*launcher, {"serve", "a"});
  const int second = StartStub(*launcher, {"serve", "b"});
  ASSERT_TRUE(launcher->WaitReady(second, kLong).ok());
  const int stopped[] = {first};
  launcher->Stop(stopped);
  EXPECT_FALSE(Exists(launcher->pid(first)));
  EXPECT_TRUE(Exists(launcher->pid(second)));
  launcher->StopAll();
  EXPECT_FALSE(Exists(launcher->pid(second)));
  EXPECT_TRUE(launcher->failure().ok()) << "an end that was asked for is no failure";
}

TEST(LauncherTest, DestructionEndsEveryChild) {
  auto launcher = NewLauncher();
  const int child = StartStub(*launcher, {"serve", "a"});
  const pid_t pid = launcher->pid(child);
  ASSERT_TRUE(launcher->WaitReady(child, kLong).ok());
  launcher.reset();
  EXPECT_FALSE(Exists(pid));
}

TEST(LauncherTest, KillsAChildThatDoesNotHeedSigterm) {
  auto launcher = NewLauncher(/*grace=*/absl::Milliseconds(20));
  const int child = StartStub(*launcher, {"deaf"});
  ASSERT_TRUE(launcher->WaitReady(child, kLong).ok());
  launcher->StopAll();
  EXPECT_FALSE(Exists(launcher->pid(child)));
}

TEST(LauncherTest, KillAllGrantsNoGraceAndStartsNothingMore) {
  auto launcher = NewLauncher(/*grace=*/absl::Hours(1));
  const int deaf = StartStub(*launcher, {"deaf"});
  ASSERT_TRUE(launcher->WaitReady(deaf, kLong).ok());
  const int silent = StartStub(*launcher, {"silent"});
  launcher->KillAll();
  EXPECT_FALSE(Exists(launcher->pid(deaf)));
  EXPECT_FALSE(Exists(launcher->pid(silent)));
  EXPECT_TRUE(launcher->failure().ok()) << "an end that was asked for is no failure";
  EXPECT_TRUE(absl::IsCancelled(launcher->WaitReady(silent, kLong).status()));
  EXPECT_TRUE(
      absl::IsCancelled(launcher->Start({.name = "late", .args = {"serve", "a"}}).status()));
}

TEST(LauncherTest, TellsStatusAndLastWordsOfAChildThatFails) {
  auto launcher = NewLauncher();
  const int child = StartStub(*launcher, {"fail", "no such file: model.gguf"}, /*name=*/"decode-0");
  const absl::Status status = launcher->WaitReady(child, kLong).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "decode-0 exited with status 3: no such file: model.gguf");
  EXPECT_TRUE(Readable(launcher->failure_fd(), /*timeout_ms=*/30'000));
  EXPECT_EQ(launcher->failure(), status);
}

TEST(LauncherTest, TellsTheSignalOfAChildThatCrashes) {
  auto launcher = NewLauncher();
  const int child = StartStub(*launcher, {"crash"});
  EXPECT_THAT(std::string(launcher->WaitReady(child, kLong).status().message()),
              AllOf(HasSubstr("signal 6"), HasSubstr("about to crash")));
}

TEST(LauncherTest, NoticesADeathAfterReadiness) {
  auto launcher = NewLauncher();
  const int child = StartStub(*launcher, {"serve", "a"}, /*name=*/"prefill-0");
  ASSERT_TRUE(launcher->WaitReady(child, kLong).ok());
  EXPECT_FALSE(Readable(launcher->failure_fd(), /*timeout_ms=*/0));
  kill(launcher->pid(child), SIGKILL);
  ASSERT_TRUE(Readable(launcher->failure_fd(), /*timeout_ms=*/30'000));
  EXPECT_THAT(std::string(launcher->failure().message()),
              HasSubstr("prefill-0 was ended by signal 9"));
}

TEST(LauncherTest, WaitReadyEndsWhenAnotherChildFails) {
  auto launcher = NewLauncher();
  const int slow = StartStub(*launcher, {"silent"}, /*name=*/"prefill-0");
  StartStub(*launcher, {"fail", "no memory"}, /*name=*/"decode-0");
  EXPECT_THAT(std::string(launcher->WaitReady(slow, kLong).status().message()),
              AllOf(HasSubstr("decode-0"), HasSubstr("no memory")));
}

TEST(LauncherTest, WaitReadyEndsAtItsTimeout) {
  auto launcher = NewLauncher();
  const int child = StartStub(*launcher, {"silent"});
  EXPECT_EQ(launcher->WaitReady(child, absl::Milliseconds(1)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(LauncherTest, NothingIsStartedOrWaitedForOnceAskedToStop) {
  const int stop_fd = eventfd(0, EFD_CLOEXEC);
  auto launcher =
      Launcher::Create({.program = "runtime/cluster/launcher_stub", .stop_fd = stop_fd});
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  const int child = StartStub(**launcher, {"silent"});
  const pid_t pid = (*launcher)->pid(child);
  std::thread asker([stop_fd] { eventfd_write(stop_fd, 1); });
  EXPECT_EQ((*launcher)->WaitReady(child, kLong).status().code(), absl::StatusCode::kCancelled);
  asker.join();
  EXPECT_EQ((*launcher)->Start({.name = "late", .args = {"serve", "a"}}).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_TRUE(Exists(pid)) << "what runs is left to Stop";
  launcher->reset();
  EXPECT_FALSE(Exists(pid));
  close(stop_fd);
}

TEST(LauncherTest, RefusesALineThatIsNoReadyLine) {
  auto launcher = NewLauncher();
  const int child = StartStub(*launcher, {"garble"});
  EXPECT_EQ(launcher->WaitReady(child, kLong).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LauncherTest, BoundsWhatItKeepsOfAReadyLine) {
  auto launcher = NewLauncher();
  const int child = StartStub(*launcher, {"flood"});
  // Its pipe is closed on it, which ends it.
  EXPECT_EQ(launcher->WaitReady(child, kLong).status().code(), absl::StatusCode::kUnavailable);
}

TEST(LauncherTest, NamesAProgramThatIsNotThere) {
  auto launcher = Launcher::Create({.program = "/nonexistent/headway"});
  const absl::Status status = (*launcher)->Start({.name = "router", .args = {}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("router"), HasSubstr("/nonexistent/headway")));
}

TEST(LauncherTest, PassesOnOnlyTheNamedDescriptors) {
  const int kept = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int leaky = open("/dev/null", O_RDONLY);
  auto launcher = NewLauncher();
  const absl::StatusOr<int> child = launcher->Start(
      {.name = "stub", .args = {"fds", absl::StrCat(kept, ",", leaky)}, .inherit_fds = {kept}});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(*launcher->WaitReady(*child, kLong), "open,closed");
  close(kept);
  close(leaky);
}

// Also when the thread that asked for the child has ended.
TEST(LauncherTest, AChildLivesOnAfterTheThreadThatStartedIt) {
  auto launcher = NewLauncher();
  int child = -1;
  std::thread([&] { child = StartStub(*launcher, {"serve", "a"}); }).join();
  ASSERT_TRUE(launcher->WaitReady(child, kLong).ok());
  EXPECT_FALSE(Readable(launcher->failure_fd(), /*timeout_ms=*/20));
  EXPECT_TRUE(Exists(launcher->pid(child)));
}

TEST(LauncherTest, AGrandchildDiesWithAParentThatIsKilled) {
  auto launcher = NewLauncher();
  const int parent = StartStub(*launcher, {"parent"});
  const absl::StatusOr<std::string> address = launcher->WaitReady(parent, kLong);
  ASSERT_TRUE(address.ok()) << address.status();
  const int grandchild = OpenProcess(std::atoi(address->c_str()));
  ASSERT_GE(grandchild, 0) << "it is alive while its parent is";
  EXPECT_FALSE(Readable(grandchild, /*timeout_ms=*/0));
  kill(launcher->pid(parent), SIGKILL);
  EXPECT_TRUE(Readable(grandchild, /*timeout_ms=*/30'000)) << "it ends by itself";
  close(grandchild);
}

TEST(OutputTailTest, KeepsTheLastLinesThatSaySomething) {
  OutputTail tail(/*forward_fd=*/-1);
  for (int i = 0; i < 100; ++i) tail.Append(absl::StrCat("line ", i, "\n"));
  tail.Append("\n\npar");
  tail.Append("tial");
  EXPECT_EQ(tail.LastWords(1), "line 99");
  tail.Flush();
  EXPECT_EQ(tail.LastWords(2), "line 99 | partial");
  EXPECT_EQ(tail.LastWords(1000).find("line 50"), std::string::npos) << "the number is bounded";
}

TEST(OutputTailTest, CutsEndlessLines) {
  OutputTail tail(/*forward_fd=*/-1);
  tail.Append(std::string(100'000, 'x'));
  tail.Flush();
  EXPECT_LE(tail.LastWords(1).size(), 4000u);
  EXPECT_LE(tail.LastWords(1000).size(), 100'000u);
}

TEST(OutputTailTest, PassesWholeLinesOn) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  OutputTail tail(fds[1]);
  tail.Append("one\ntw");
  char bytes[100];
  EXPECT_EQ(std::string(bytes, static_cast<size_t>(read(fds[0], bytes, sizeof(bytes)))), "one\n");
  tail.Append("o\n");
  EXPECT_EQ(std::string(bytes, static_cast<size_t>(read(fds[0], bytes, sizeof(bytes)))), "two\n");
  close(fds[0]);
  close(fds[1]);
}

TEST(ReadyLineTest, RoundTrips) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  ASSERT_TRUE(WriteReadyLine(fds[1], "127.0.0.1:4711").ok());
  char bytes[100];
  const ssize_t count = read(fds[0], bytes, sizeof(bytes));
  const std::string line(bytes, static_cast<size_t>(count));
  EXPECT_EQ(line, "{\"address\":\"127.0.0.1:4711\"}\n");
  EXPECT_EQ(*ParseReadyLine(line.substr(0, line.size() - 1)), "127.0.0.1:4711");
  EXPECT_EQ(read(fds[0], bytes, sizeof(bytes)), 0) << "the descriptor is closed";
  close(fds[0]);
  EXPECT_TRUE(WriteReadyLine(-1, "nobody asked").ok());
}

TEST(ReadyLineTest, RefusesOtherText) {
  for (const char* line : {"", "hello", "{}", "[]", "{\"address\":4711}", "{\"address\":\"a\""}) {
    EXPECT_EQ(ParseReadyLine(line).status().code(), absl::StatusCode::kInvalidArgument) << line;
  }
}

}  // namespace
}  // namespace headway
