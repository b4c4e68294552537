#include "runtime/cluster/topology.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TopologyTest, ReadsAndWritesGroupsInOrder) {
  const auto topology = ParseTopology("1xP:tp2,3xD:tp1,1xP:tp16");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_THAT(topology->groups,
              ElementsAre(NodeGroup{NodeRole::kPrefill, 1, 2}, NodeGroup{NodeRole::kDecode, 3, 1},
                          NodeGroup{NodeRole::kPrefill, 1, 16}));
  EXPECT_EQ(topology->ToString(), "1xP:tp2,3xD:tp1,1xP:tp16");
  EXPECT_EQ(topology->Nodes(NodeRole::kPrefill), 2);
  EXPECT_EQ(topology->Nodes(NodeRole::kDecode), 3);
  EXPECT_EQ(topology->Nodes(NodeRole::kMixed), 0);
  EXPECT_EQ(topology->Nodes(), 5);
  EXPECT_EQ(topology->Ranks(), 2 + 3 + 16);
}

TEST(TopologyTest, MixedNodesNeedNoPair) {
  const auto topology = ParseTopology("2xM:tp2");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_THAT(topology->groups, ElementsAre(NodeGroup{NodeRole::kMixed, 2, 2}));
  EXPECT_TRUE(ParseTopology("1xM:tp1,1xP:tp1,1xD:tp1").ok());
}

TEST(TopologyTest, RefusesWithTheLineThePartAndWhatWasExpected) {
  const struct {
    const char* line;
    const char* text;
  } kCases[] = {
      {"", "expected a number of nodes from 1 to 1000 in \"\""},
      {"P:tp1", "expected a number of nodes"},
      {"0xM:tp1", "expected a number of nodes"},
      {"-1xM:tp1", "expected a number of nodes"},
      {"1001xM:tp1", "expected a number of nodes"},
      {"99999999999999999999xM:tp1", "expected a number of nodes"},
      {"1M:tp1", "expected 'x' after the number of nodes in \"1M:tp1\""},
      {"1 xM:tp1", "expected 'x'"},
      {"1xQ:tp1", "expected a role P, D or M"},
      {"1xm:tp1", "expected a role P, D or M"},
      {"1xM", "expected ':tp' after the role"},
      {"1xM:1", "expected ':tp' after the role"},
      {"1xM:tp", "expected a degree from 1 to 1000"},
      {"1xM:tp0", "expected a degree from 1 to 1000"},
      {"1xM:tp1001", "expected a degree from 1 to 1000"},
      {"1xM:tp1 ", "expected ',' or the end"},
      {"1xM:tp1,", "expected a number of nodes from 1 to 1000 in \"\""},
      {"1xM:tp1,1xQ:tp1", "in \"1xQ:tp1\""},
      {"1xP:tp1", "need a decode node (D)"},
      {"1xD:tp1,1xM:tp1", "need a prefill node (P)"},
  };
  for (const auto& c : kCases) {
    const auto topology = ParseTopology(c.line);
    ASSERT_FALSE(topology.ok()) << c.line;
    EXPECT_EQ(topology.status().code(), absl::StatusCode::kInvalidArgument) << c.line;
    const std::string message(topology.status().message());
    EXPECT_THAT(message, HasSubstr(c.text)) << c.line;
    EXPECT_THAT(message, HasSubstr(std::string("topology \"") + c.line + "\"")) << c.line;
  }
}

}  // namespace
}  // namespace headway
