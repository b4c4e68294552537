#include "runtime/node/rank_command.h"

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
  command.spans = {{.tokens = {10, 11},
                    .first_position = 16,
                    .block_table = {2, 3},
                    .logits = BatchSpan::Logits::kAll,
                    .push_to = 9,
                    .push_begin = 1,
                    .push_end = 2},
                   {.tokens = {12}}};
  command.poll_receives = {7};
  command.poll_sends = {9};
  return command;
}

TEST(RankCommandTest, ComesBackAsItWasEncoded) {
  std::vector<std::byte> bytes;
  EncodeCommand(Everything(), bytes);
  absl::StatusOr<RankCommand> back = DecodeCommand(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_FALSE(back->stop);
  ASSERT_EQ(back->opens.size(), 1u);
  EXPECT_EQ(back->opens[0].reservation_id, 7u);
  EXPECT_THAT(back->opens[0].block_table, ElementsAre(5, 6));
  EXPECT_EQ(back->opens[0].first_block, 1);
  EXPECT_THAT(back->closes, ElementsAre(3u, 4u));
  ASSERT_EQ(back->begin_sends.size(), 1u);
  EXPECT_THAT(back->begin_sends[0].peer_addresses, ElementsAre(std::string("\0a", 2), "bc"));
  EXPECT_EQ(back->begin_sends[0].lease_nanos, 5'000'000'000);
  EXPECT_THAT(back->end_sends, ElementsAre(8u));
  ASSERT_EQ(back->spans.size(), 2u);
  EXPECT_THAT(back->spans[0].tokens, ElementsAre(10, 11));
  EXPECT_EQ(back->spans[0].logits, BatchSpan::Logits::kAll);
  EXPECT_EQ(back->spans[0].push_end, 2);
  EXPECT_EQ(back->spans[1].logits, BatchSpan::Logits::kLast);
  EXPECT_THAT(back->poll_sends, ElementsAre(9u));
  EXPECT_FALSE(back->empty());
  EXPECT_TRUE(RankCommand().empty());
}

TEST(RankCommandTest, RefusesEveryCut) {
  std::vector<std::byte> bytes;
  EncodeCommand(Everything(), bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeCommand(std::span(bytes).first(size)).ok()) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(DecodeCommand(bytes).ok());
}

TEST(RankCommandTest, AHugeCountAllocatesNothing) {
  std::vector<std::byte> bytes(1 + 8, std::byte{0xff});
  EXPECT_FALSE(DecodeCommand(bytes).ok());
}

}  // namespace
}  // namespace headway
