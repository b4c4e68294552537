#include "runtime/cluster/local_cluster.h"

#include <poll.h>

#include <csignal>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The stub stands in for the binary: as a node or a router it is ready at once, at an address that
// spells out what it was told.
LocalClusterOptions Options(std::string_view topology) {
  LocalClusterOptions options;
  options.topology = *ParseTopology(topology);
  options.model = "m.gguf";
  options.launcher.program = "runtime/cluster/launcher_stub";
  return options;
}

TEST(LocalClusterTest, StartsEveryNodeAndTellsTheRouterWhereTheyAre) {
  LocalClusterOptions options = Options("2xP:tp2,1xD:tp3");
  options.node_flags = {"--kv-dtype", "f32"};
  options.listen = "127.0.0.1:7";
  const auto cluster = LocalCluster::Start(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ASSERT_EQ((*cluster)->nodes().size(), 3u);
  EXPECT_EQ((*cluster)->nodes()[1].name, "prefill-1");
  EXPECT_EQ((*cluster)->nodes()[1].address,
            "node --listen 127.0.0.1:0 --role prefill --name prefill-1 --tp 2 --model m.gguf "
            "--kv-dtype f32");
  EXPECT_EQ((*cluster)->nodes()[2].degree, 3);
  EXPECT_THAT(
      (*cluster)->router_address(),
      AllOf(HasSubstr("router --listen 127.0.0.1:7 --model m.gguf"),
            HasSubstr("--prefill node --listen 127.0.0.1:0 --role prefill --name prefill-0"),
            HasSubstr(",node --listen 127.0.0.1:0 --role prefill --name prefill-1"),
            HasSubstr("--decode node --listen 127.0.0.1:0 --role decode")));
  EXPECT_TRUE((*cluster)->failure().ok());
  (*cluster)->Stop();
  EXPECT_TRUE((*cluster)->failure().ok());
}

TEST(LocalClusterTest, NumbersNodesOfARoleAcrossGroups) {
  const auto cluster = LocalCluster::Start(Options("1xM:tp1,1xM:tp2"));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ((*cluster)->nodes()[0].name, "mixed-0");
  EXPECT_EQ((*cluster)->nodes()[1].name, "mixed-1");
}

TEST(LocalClusterTest, TellsWhichNodeDidNotStartAndWhy) {
  LocalClusterOptions options = Options("1xP:tp2,1xD:tp2");
  options.model = "missing.gguf";  // the stub's decode node refuses this one
  const auto cluster = LocalCluster::Start(options);
  EXPECT_EQ(cluster.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(cluster.status().message()),
              AllOf(HasSubstr("decode-0 exited with status 1"), HasSubstr("missing.gguf")));
}

TEST(LocalClusterTest, WhatEndsIsStartedAgainAtItsAddress) {
  const auto started = LocalCluster::Start(Options("1xP:tp1,1xD:tp1"));
  ASSERT_TRUE(started.ok()) << started.status();
  LocalCluster& cluster = **started;
  EXPECT_TRUE(cluster.Mend().ok()) << "nothing has ended";
  const pid_t before = cluster.node_pid(1);
  kill(before, SIGKILL);
  pollfd failure{cluster.failure_fd(), POLLIN, 0};
  ASSERT_EQ(poll(&failure, 1, /*timeout=*/-1), 1);
  testing::internal::CaptureStderr();
  EXPECT_TRUE(cluster.Mend().ok());
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("decode-0 was ended by signal 9"), HasSubstr("it is started again"),
            HasSubstr("decode-0 serves again on node --listen " + cluster.nodes()[1].address)));
  EXPECT_NE(cluster.node_pid(1), before);
  EXPECT_TRUE(cluster.failure().ok());
  EXPECT_EQ(poll(&failure, 1, /*timeout=*/0), 0);
}

TEST(LocalClusterTest, WhatEndsTooOftenIsGivenUp) {
  LocalClusterOptions options = Options("1xM:tp1");
  options.max_restarts = 2;
  options.restart_window = absl::InfiniteDuration();
  const auto cluster = LocalCluster::Start(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  for (int i = 0; i < 3; ++i) {
    kill((*cluster)->node_pid(0), SIGKILL);
    pollfd failure{(*cluster)->failure_fd(), POLLIN, 0};
    ASSERT_EQ(poll(&failure, 1, /*timeout=*/-1), 1);
    const absl::Status status = (*cluster)->Mend();
    EXPECT_EQ(status.ok(), i < 2) << status;
    if (i == 2) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("mixed-0 was ended"));
    }
  }
}

}  // namespace
}  // namespace headway
