// UCX between processes, and what becomes of the one that stays when the other is killed.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/clock.h"
#include "runtime/transfer/testing.h"
#include "runtime/transfer/ucx_transport.h"

namespace headway {
namespace {

constexpr char kPeerProgram[] = "runtime/transfer/transport_peer";

// A running transport_peer; killed at the latest when this goes.
class PeerProcess {
 public:
  explicit PeerProcess(const std::string& host_transport, const std::string& flooded = "") {
    int input[2], output[2];
    EXPECT_EQ(pipe2(input, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(output, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    std::string arguments[] = {kPeerProgram, host_transport, absl::BytesToHexString(flooded)};
    char* argv[] = {arguments[0].data(), arguments[1].data(),
                    flooded.empty() ? nullptr : arguments[2].data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, kPeerProgram, &actions, nullptr, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    input_ = input[1];
    std::string line;
    char c;
    while (read(output[0], &c, 1) == 1 && c != '\n') line += c;
    close(output[0]);
    address_ = absl::HexStringToBytes(line);
    EXPECT_FALSE(address_.empty()) << "the peer did not start";
  }
  ~PeerProcess() { Kill(); }

  const std::string& address() const { return address_; }
  void Kill() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    Reap();
  }
  // Ends it through its input; its exit status.
  int Finish() {
    close(std::exchange(input_, -1));
    return Reap();
  }

 private:
  int Reap() {
    if (pid_ <= 0) return -1;
    int status = -1;
    waitpid(std::exchange(pid_, 0), &status, 0);
    if (input_ >= 0) close(std::exchange(input_, -1));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  pid_t pid_ = 0;
  int input_ = -1;
  std::string address_;
};

class UcxProcessTest : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Transport> Create() {
    auto transport =
        UcxTransport::Create({.host_transport = GetParam(), .net_devices = "lo"}, clock_);
    EXPECT_TRUE(transport.ok()) << transport.status();
    return *std::move(transport);
  }

  FakeClock clock_;
};

// Segments of shared memory that UCX has open here.
int SharedSegments() {
  std::ifstream maps("/proc/self/maps");
  int segments = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("ucx_shm_posix") != std::string::npos) ++segments;
  }
  return segments;
}

// Whether messages of several sizes come back from `peer` as they were.
bool Echoes(Transport& transport, const PeerProcess& peer) {
  std::mutex mutex;
  std::vector<std::vector<std::byte>> back;
  transport.SetReceiver([&](std::span<const std::byte> header, std::span<const std::byte> payload) {
    if (!header.empty()) return;  // the rest of a flood
    std::lock_guard lock(mutex);
    back.emplace_back(payload.begin(), payload.end());
  });
  const std::string mine = transport.address();
  std::vector<std::vector<std::byte>> sent;
  for (size_t size : {0, 1, 8191, 70'000, 262'144, 1'000'003, 3}) {
    sent.push_back(RunPattern(size, 0, 0, static_cast<int>(size)));
    transport.Send(peer.address(), std::as_bytes(std::span(mine)), sent.back(),
                   [](const absl::Status&) {});
  }
  const bool all = Eventually([&] {
    std::lock_guard lock(mutex);
    return back.size() == sent.size();
  });
  transport.SetReceiver({});
  return all && back == sent;
}

TEST_P(UcxProcessTest, MessagesGoThereAndBack) {
  auto transport = Create();
  PeerProcess peer(GetParam());
  EXPECT_TRUE(Echoes(*transport, peer));
  EXPECT_EQ(peer.Finish(), 0);
}

// At once: the clock of this test stands, so no deadline helps.
TEST_P(UcxProcessTest, AKilledPeerEndsItsMessages) {
  std::mutex mutex;
  std::vector<absl::StatusCode> codes;
  auto transport = Create();
  PeerProcess other(GetParam());
  auto peer = std::make_unique<PeerProcess>(GetParam());
  ASSERT_TRUE(Echoes(*transport, *peer));
  ASSERT_TRUE(Echoes(*transport, other));
  const std::vector<std::byte> payload(1 << 20);
  const std::string nowhere = "not an address";
  auto send = [&] {
    transport->Send(peer->address(), std::as_bytes(std::span(nowhere)), payload,
                    [&](const absl::Status& status) {
                      std::lock_guard lock(mutex);
                      codes.push_back(status.code());
                    });
  };
  for (int i = 0; i < 20; ++i) send();
  peer->Kill();
  for (int i = 0; i < 20; ++i) send();
  EXPECT_TRUE(Echoes(*transport, other));
  EXPECT_EQ(other.Finish(), 0);
  ASSERT_TRUE(Eventually([&] {
    std::lock_guard lock(mutex);
    return codes.size() == 40;
  }));
  EXPECT_TRUE(Eventually([&] { return SharedSegments() == 0; })) << SharedSegments();
  std::lock_guard lock(mutex);
  EXPECT_EQ(codes.back(), absl::StatusCode::kUnavailable);
}

// A sender that dies in the middle of a message must not take the receiver along, nor its ears, nor
// leave its memory there.
TEST_P(UcxProcessTest, AKilledSenderHarmsNoOther) {
  auto transport = Create();
  PeerProcess lasting(GetParam());
  ASSERT_TRUE(Echoes(*transport, lasting));
  const int before = SharedSegments();
  EXPECT_EQ(before > 0, *GetParam() != '\0') << "the wrong way is taken";
  for (int round = 0; round < 8; ++round) {
    std::atomic<int> arrived = 0;
    transport->SetReceiver([&](auto, auto) { ++arrived; });
    PeerProcess flooding(GetParam(), transport->address());
    ASSERT_TRUE(Eventually([&] { return arrived > 10 + round; }));
    flooding.Kill();
    ASSERT_TRUE(Echoes(*transport, lasting));
    PeerProcess fresh(GetParam());
    ASSERT_TRUE(Echoes(*transport, fresh));
    EXPECT_EQ(fresh.Finish(), 0);
  }
  EXPECT_TRUE(Eventually([&] { return SharedSegments() <= before; })) << SharedSegments();
  EXPECT_EQ(lasting.Finish(), 0);
}

// What a sender has handed over is delivered though it is gone by then.
TEST_P(UcxProcessTest, WhatALeavingSenderHandedOverArrives) {
  auto transport = Create();
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> arrived = 0;
    transport->SetReceiver([&](auto, auto) { ++arrived; });
    std::atomic<int> sent = 0;
    {
      auto leaving = Create();
      const std::vector<std::byte> payload(30'000);
      for (int i = 0; i < 10; ++i) {
        leaving->Send(transport->address(), {}, payload, [&](const absl::Status& status) {
          if (status.ok()) ++sent;
        });
      }
      ASSERT_TRUE(Eventually([&] { return sent == 10; }));
    }
    EXPECT_TRUE(Eventually([&] { return arrived == 10; })) << arrived;
  }
  transport->SetReceiver({});
}

INSTANTIATE_TEST_SUITE_P(Ways, UcxProcessTest, testing::Values("", "posix"),
                         [](const auto& info) { return *info.param ? "SharedMemory" : "Network"; });

}  // namespace
}  // namespace headway
