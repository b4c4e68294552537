#include "runtime/node/rank_command.h"

#include <functional>
#include <vector>

#include "gmock/gmock.h"

namespace headway {
namespace {

using ::testing::ElementsAre;

RankCommand Everything() {
  RankCommand command;
  command.opens = {{.reservation_id = 7, .epoch = 2, .block_table = {5, 6}, .first_block = 1}};
  command.closes = {3, 4};
  command.begin_sends = {{.reservation_id = 9,
                          .epoch = 1,
                          .target_degree = 2,
                          .peer_addresses = {std::string("\0a", 2), "bc"},
                          .block_table = {1},
                          .first_block = 0,
                          .lease_nanos = 5'000'000'000}};
  command.end_sends = {8};
  command.tables = {{.slot = 5, .kept = 1, .added = 2}, {.slot = 0, .added = 1}};
  command.blocks = {2, 3, 4};
  command.spans = {{.slot = 5,
                    .count = 2,
                    .first_position = 16,
                    .logits = BatchSpan::Logits::kAll,
                    .push_to = 9,
                    .push_begin = 1,
                    .push_end = 2},
                   {.count = 1}};
  command.tokens = {10, 11, 12};
  command.poll_receives = {7};
  command.poll_sends = {9};
  return command;
}

TEST(RankCommandTest, ComesBackAsItWasEncoded) {
  std::vector<std::byte> bytes;
  EncodeCommand(Everything(), bytes);
  RankCommand back = Everything();  // what was there before leaves no trace
  back.stop = true;
  back.opens.resize(3);
  back.tokens.resize(1000);
  ASSERT_TRUE(DecodeCommand(bytes, back).ok());
  EXPECT_FALSE(back.stop);
  ASSERT_EQ(back.opens.size(), 1u);
  EXPECT_EQ(back.opens[0].reservation_id, 7u);
  EXPECT_THAT(back.opens[0].block_table, ElementsAre(5, 6));
  EXPECT_EQ(back.opens[0].first_block, 1);
  EXPECT_THAT(back.closes, ElementsAre(3u, 4u));
  ASSERT_EQ(back.begin_sends.size(), 1u);
  EXPECT_THAT(back.begin_sends[0].peer_addresses, ElementsAre(std::string("\0a", 2), "bc"));
  EXPECT_EQ(back.begin_sends[0].lease_nanos, 5'000'000'000);
  EXPECT_THAT(back.end_sends, ElementsAre(8u));
  ASSERT_EQ(back.spans.size(), 2u);
  EXPECT_EQ(back.spans[0].slot, 5);
  EXPECT_EQ(back.spans[0].count, 2);
  EXPECT_THAT(back.tokens, ElementsAre(10, 11, 12));
  ASSERT_EQ(back.tables.size(), 2u);
  EXPECT_EQ(back.tables[0].slot, 5);
  EXPECT_EQ(back.tables[0].kept, 1);
  EXPECT_EQ(back.tables[1].added, 1);
  EXPECT_THAT(back.blocks, ElementsAre(2, 3, 4));
  EXPECT_EQ(back.spans[0].logits, BatchSpan::Logits::kAll);
  EXPECT_EQ(back.spans[0].push_end, 2);
  EXPECT_EQ(back.spans[1].logits, BatchSpan::Logits::kLast);
  EXPECT_THAT(back.poll_sends, ElementsAre(9u));
  EXPECT_FALSE(back.empty());
  back.Clear();
  EXPECT_TRUE(back.empty());
}

TEST(RankCommandTest, RefusesEveryCut) {
  std::vector<std::byte> bytes;
  EncodeCommand(Everything(), bytes);
  RankCommand command;
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeCommand(std::span(bytes).first(size), command).ok()) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(DecodeCommand(bytes, command).ok());
}

TEST(RankCommandTest, RefusesCountsThatAreNotThoseOfTheLists) {
  const auto status = [](const std::function<void(RankCommand&)>& change) {
    RankCommand command = Everything();
    change(command);
    std::vector<std::byte> bytes;
    EncodeCommand(command, bytes);
    return DecodeCommand(bytes, command);
  };
  EXPECT_TRUE(status([](RankCommand&) {}).ok());
  EXPECT_FALSE(status([](RankCommand& c) { c.tokens.pop_back(); }).ok());
  EXPECT_FALSE(status([](RankCommand& c) { c.blocks.push_back(1); }).ok());
  EXPECT_FALSE(status([](RankCommand& c) { c.tables[0].added = 4, c.tables[1].added = -1; }).ok());
  EXPECT_FALSE(status([](RankCommand& c) { c.spans[0].count = 3, c.spans[1].count = 0; }).ok());
}

TEST(RankCommandTest, AHugeCountAllocatesNothing) {
  std::vector<std::byte> bytes(1 + 8, std::byte{0xff});
  RankCommand command;
  EXPECT_FALSE(DecodeCommand(bytes, command).ok());
}

TEST(RankCommandTest, TheLargestStepHoldsWhatTheLimitsAllow) {
  RankCommand step = LargestStep({.rows = 8, .sequences = 3, .blocks = 20});
  step.Clear();
  EXPECT_TRUE(step.empty());
  EXPECT_GE(step.tokens.capacity(), 8u);
  EXPECT_GE(step.spans.capacity(), 3u);
  EXPECT_GE(step.tables.capacity(), 3u);
  EXPECT_GE(step.blocks.capacity(), 20u);
}

}  // namespace
}  // namespace headway
