#include "runtime/node/sequence_tables.h"

#include <string>

#include "gmock/gmock.h"

namespace headway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::Status Update(SequenceTables& tables, int slot, int kept, std::vector<int32_t> blocks) {
  RankCommand command;
  command.tables = {{.slot = slot, .kept = kept, .added = static_cast<int32_t>(blocks.size())}};
  command.blocks = std::move(blocks);
  return tables.Apply(command);
}

TEST(SequenceTablesTest, TablesGrowByWhatIsNew) {
  SequenceTables tables(2, 4);
  EXPECT_THAT(*tables.Table(1), IsEmpty());
  ASSERT_TRUE(Update(tables, 1, 0, {7, 3}).ok());
  ASSERT_TRUE(Update(tables, 1, 2, {5}).ok());
  ASSERT_TRUE(Update(tables, 0, 0, {9}).ok());
  EXPECT_THAT(*tables.Table(1), ElementsAre(7, 3, 5));
  EXPECT_THAT(*tables.Table(0), ElementsAre(9));
}

TEST(SequenceTablesTest, ANewSequenceLeavesNothingOfTheOneBefore) {
  SequenceTables tables(1, 4);
  ASSERT_TRUE(Update(tables, 0, 0, {7, 3, 5}).ok());
  ASSERT_TRUE(Update(tables, 0, 0, {2}).ok());
  EXPECT_THAT(*tables.Table(0), ElementsAre(2));
}

TEST(SequenceTablesTest, OneCommandUpdatesSeveral) {
  SequenceTables tables(3, 4);
  RankCommand command;
  command.tables = {{.slot = 2, .added = 2}, {.slot = 0, .added = 1}};
  command.blocks = {7, 3, 5};
  ASSERT_TRUE(tables.Apply(command).ok());
  EXPECT_THAT(*tables.Table(2), ElementsAre(7, 3));
  EXPECT_THAT(*tables.Table(0), ElementsAre(5));
}

TEST(SequenceTablesTest, RefusesWhatDoesNotFit) {
  SequenceTables tables(2, 3);
  ASSERT_TRUE(Update(tables, 0, 0, {1, 2}).ok());
  const auto message = [&](int slot, int kept, std::vector<int32_t> blocks) {
    return std::string(Update(tables, slot, kept, std::move(blocks)).message());
  };
  EXPECT_THAT(message(2, 0, {1}), HasSubstr("slot 2; there are 2"));
  EXPECT_THAT(message(-1, 0, {1}), HasSubstr("slot -1"));
  EXPECT_THAT(message(0, 3, {1}), HasSubstr("keep 3 of 2"));
  EXPECT_THAT(message(0, -1, {1}), HasSubstr("keep -1"));
  EXPECT_THAT(message(0, 2, {1, 2}), HasSubstr("the longest has 3"));
  EXPECT_THAT(*tables.Table(0), ElementsAre(1, 2));
  EXPECT_FALSE(tables.Table(2).ok());
  EXPECT_FALSE(tables.Table(-1).ok());
}

}  // namespace
}  // namespace headway
