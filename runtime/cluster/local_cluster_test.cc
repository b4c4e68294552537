#include "runtime/cluster/local_cluster.h"

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
            "node --role prefill --name prefill-1 --tp 2 --model m.gguf --listen 127.0.0.1:0 "
            "--kv-dtype f32");
  EXPECT_EQ((*cluster)->nodes()[2].degree, 3);
  EXPECT_THAT((*cluster)->router_address(),
              AllOf(HasSubstr("router --model m.gguf --listen 127.0.0.1:7"),
                    HasSubstr("--prefill node --role prefill --name prefill-0"),
                    HasSubstr(",node --role prefill --name prefill-1"),
                    HasSubstr("--decode node --role decode --name decode-0")));
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

}  // namespace
}  // namespace headway
