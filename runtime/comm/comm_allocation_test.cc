// Nothing allocates in a step: counts what the collectives take from the heap.
#include <thread>

#include "gtest/gtest.h"
#include "runtime/comm/local_communicator.h"
#include "runtime/comm/ordered_reduce.h"
#include "tests/allocation_counter.h"

namespace headway {
namespace {

TEST(CommAllocationTest, TheCounterCounts) {
  const int64_t before = AllocationsOfThread();
  delete new int(1);
  EXPECT_GE(AllocationsOfThread(), before);  // the compiler may leave the pair out
  std::vector<int> numbers(1000);
  numbers.resize(numbers.capacity() + 1);
  EXPECT_GT(AllocationsOfThread(), before);
}

TEST(CommAllocationTest, CollectivesTakeNothing) {
  constexpr int kRows = 3, kColumns = 50'000;  // several pieces
  auto comms = NewLocalCommunicators(2);
  const auto rank_main = [&](int rank) {
    Communicator& comm = *comms[rank];
    std::vector<std::byte> bytes(300'000), all(600'000);
    const std::vector<int64_t> sizes = {300'000, 300'000}, halves = {150'000, 150'000};
    std::vector<float> residual(kRows * kColumns);
    auto reduce = OrderedReduce::Create(comm, {0, 4, 9}, 9, kRows * kColumns);
    ASSERT_TRUE(reduce.ok()) << reduce.status();
    const int64_t before = AllocationsOfThread();
    bool well = true;
    for (int i = 0; i < 3; ++i) {
      well &= comm.Barrier().ok();
      well &= comm.Broadcast(1, bytes).ok();
      well &= comm.Gather(-1, bytes, sizes, all.data()).ok();
      well &= comm.AllToAll(bytes, halves, all.data(), halves).ok();
      for (int rows : {1, kRows}) {
        for (int columns : {64, kColumns}) {
          well &= (*reduce)->Reduce(rows, columns, nullptr, residual.data(), columns).ok();
        }
      }
    }
    EXPECT_EQ(AllocationsOfThread() - before, 0) << "rank " << rank;
    EXPECT_TRUE(well);
  };
  std::thread other(rank_main, 1);
  rank_main(0);
  other.join();
}

}  // namespace
}  // namespace headway
