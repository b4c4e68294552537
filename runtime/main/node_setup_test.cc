#include "runtime/main/node_setup.h"

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "tests/shared_data.h"

namespace headway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class NodeSetupTest : public ::testing::Test {
 protected:
  NodeSetupTest() { checkpoint_ = *Checkpoint::Open(GoldenPath("models/llama_gqa_9_3")); }
  absl::StatusOr<NodeSetup> Settle(const KvSize& size, int degree = 1) {
    return SettleNode(*checkpoint_, {}, degree, size);
  }
  std::string Error(const KvSize& size, int degree = 1) {
    const absl::StatusOr<NodeSetup> setup = Settle(size, degree);
    EXPECT_EQ(setup.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(setup.status().message());
  }
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST(KvDevicesTest, ALoopbackAddressKeepsKvBlocksOnTheHost) {
  for (const char* listen : {"127.0.0.1:0", "127.1.2.3:7000", "localhost:0", "[::1]:0"}) {
    EXPECT_EQ(KvDevices(listen), "lo") << listen;
  }
  for (const char* listen : {"0.0.0.0:0", "10.0.0.7:7000", "node-3:0", "[fe80::1]:0"}) {
    EXPECT_EQ(KvDevices(listen), "all") << listen;
  }
}

TEST_F(NodeSetupTest, TheDefaultHoldsSequencesAndStaysSmall) {
  const auto setup = Settle({});
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_EQ(setup->kv_blocks, 32 * 512 / 16);  // 32 sequences of 512 positions
  EXPECT_EQ(setup->max_positions, 512);
  EXPECT_GE(setup->threads, 1);
}

TEST_F(NodeSetupTest, TakesWhatIsAskedFor) {
  EXPECT_EQ(Settle({.blocks = 7})->kv_blocks, 7);
  EXPECT_EQ(Settle({.max_positions = 100})->max_positions, 100);
  // Two ranks that cut through a KV head store it twice.
  const int alone = Settle({.memory_bytes = 12 << 20})->kv_blocks;
  const int cut = Settle({.memory_bytes = 12 << 20}, 2)->kv_blocks;
  EXPECT_EQ(cut, alone * 3 / 4);
}

TEST_F(NodeSetupTest, RefusesMoreThanTheMachineHas) {
  EXPECT_THAT(Error({.blocks = INT32_MAX}),
              AllOf(HasSubstr("--kv-blocks 2147483647"), HasSubstr("this machine's memory of ")));
  EXPECT_THAT(
      Error({.memory_bytes = int64_t{1} << 60}),
      AllOf(HasSubstr("--kv-memory 1152921504606846976"), HasSubstr("this machine's memory of ")));
}

TEST_F(NodeSetupTest, RefusesLessThanABlock) {
  EXPECT_THAT(Error({.memory_bytes = 100}),
              AllOf(HasSubstr("may take 100 bytes"), HasSubstr("one block")));
}

TEST_F(NodeSetupTest, RefusesWhatTheCheckpointHasNot) {
  EXPECT_THAT(Error({.max_positions = 513}), AllOf(HasSubstr("513"), HasSubstr("512")));
  EXPECT_THAT(Error({}, 10), AllOf(HasSubstr("10"), HasSubstr("1 to 9")));
}

}  // namespace
}  // namespace headway
