#include "runtime/comm/communicator.h"

#include <atomic>
#include <cstring>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/comm/communicator_harness.h"
#include "runtime/comm/segment.h"

namespace headway {
namespace {

using ::testing::Each;

// Conformance of every form of communicator: what the collectives carry. Ranks compute what they
// must receive from a formula, so nothing but the communicator joins them.
class CommunicatorTest : public testing::TestWithParam<RankForm> {
 protected:
  void ExpectAllWell(int size, const RankProgram& program) {
    EXPECT_THAT(RunRanks(GetParam(), size, absl::Seconds(30), program), Each(std::string()))
        << size << " ranks";
  }
};

INSTANTIATE_TEST_SUITE_P(Forms, CommunicatorTest, testing::ValuesIn(kRankForms),
                         [](const auto& info) { return testing::PrintToString(info.param); });

// Adds the `count` bytes that rank `from` sends rank `to` in `round`.
void Append(std::vector<std::byte>& bytes, int round, int from, int to, int64_t count) {
  const size_t begin = bytes.size();
  bytes.resize(begin + static_cast<size_t>(count));
  uint64_t word = static_cast<uint64_t>(round * 10'000 + from * 100 + to + 1);
  for (int64_t i = 0; i < count; i += 8) {
    word = (word ^ (word >> 29)) * 0xbf58476d1ce4e5b9u + 1;
    std::memcpy(&bytes[begin + static_cast<size_t>(i)], &word,
                static_cast<size_t>(std::min<int64_t>(8, count - i)));
  }
}

constexpr int kAll = 99;  // `to` of what every reader gets alike

std::string Compare(const char* what, int round, const std::vector<std::byte>& got,
                    const std::vector<std::byte>& wanted) {
  if (got.size() == wanted.size() &&
      (got.empty() || std::memcmp(got.data(), wanted.data(), got.size()) == 0)) {
    return "";
  }
  const auto at = std::mismatch(got.begin(), got.end(), wanted.begin()).first - got.begin();
  return absl::StrCat(what, " of round ", round, ": ", got.size(), " bytes differ from byte ", at);
}

std::string CheckBroadcast(Communicator& comm, int round, int root, int64_t count) {
  std::vector<std::byte> wanted, bytes(static_cast<size_t>(count));
  Append(wanted, round, root, kAll, count);
  if (comm.rank() == root) bytes = wanted;
  if (absl::Status status = comm.Broadcast(root, bytes); !status.ok()) return status.ToString();
  return Compare("broadcast", round, bytes, wanted);
}

std::string CheckGather(Communicator& comm, int round, int root, const std::vector<int64_t>& sizes,
                        bool in_place) {
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const int64_t offset = std::accumulate(sizes.begin(), sizes.begin() + comm.rank(), int64_t{0});
  std::vector<std::byte> mine, wanted;
  Append(mine, round, comm.rank(), kAll, sizes[comm.rank()]);
  const bool reads = root == -1 || root == comm.rank();
  if (!reads) {
    const absl::Status status = comm.Gather(root, mine, sizes, nullptr);
    return status.ok() ? "" : status.ToString();
  }
  for (int rank = 0; rank < comm.size(); ++rank) Append(wanted, round, rank, kAll, sizes[rank]);
  std::vector<std::byte> all(static_cast<size_t>(total));
  std::span<const std::byte> from = mine;
  if (in_place) {
    std::copy(mine.begin(), mine.end(), all.begin() + offset);
    from = std::span<const std::byte>(all).subspan(static_cast<size_t>(offset), mine.size());
  }
  if (absl::Status s = comm.Gather(root, from, sizes, all.data()); !s.ok()) return s.ToString();
  return Compare("gather", round, all, wanted);
}

// sizes[from][to]
std::string CheckAllToAll(Communicator& comm, int round,
                          const std::vector<std::vector<int64_t>>& sizes) {
  std::vector<std::byte> send, wanted;
  std::vector<int64_t> recv_sizes;
  for (int peer = 0; peer < comm.size(); ++peer) {
    Append(send, round, comm.rank(), peer, sizes[comm.rank()][peer]);
    Append(wanted, round, peer, comm.rank(), sizes[peer][comm.rank()]);
    recv_sizes.push_back(sizes[peer][comm.rank()]);
  }
  std::vector<std::byte> recv(wanted.size());
  const absl::Status status = comm.AllToAll(send, sizes[comm.rank()], recv.data(), recv_sizes);
  return status.ok() ? Compare("all-to-all", round, recv, wanted) : status.ToString();
}

TEST_P(CommunicatorTest, RanksKnowThemselves) {
  SharedPage page;
  auto& seen = page.As<std::atomic<int>[kMaxRanks]>();
  ExpectAllWell(3, [&](Communicator& comm) {
    ++seen[comm.rank()];
    return comm.size() == 3 ? "" : absl::StrCat("size ", comm.size());
  });
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(seen[rank], rank < 3);
}

TEST_P(CommunicatorTest, BarrierHoldsEveryRankBackForAll) {
  for (int size : {1, 2, 3, 4, 5, 8, kMaxRanks}) {
    SharedPage page;
    auto& arrived = page.As<std::atomic<int>>();
    ExpectAllWell(size, [&](Communicator& comm) -> std::string {
      for (int round = 1; round <= 20; ++round) {
        ++arrived;
        if (absl::Status s = comm.Barrier(); !s.ok()) return s.ToString();
        if (arrived < round * size) return absl::StrCat("left barrier ", round, " too early");
      }
      return "";
    });
    EXPECT_EQ(arrived, 20 * size);
  }
}

// Sizes around a cache line, odd ones, none at all, and differing between ranks.
TEST_P(CommunicatorTest, EveryCollectiveWithEveryRootAndOddSizes) {
  constexpr int64_t kCounts[] = {0, 1, 7, 63, 64, 65, 1001};
  for (int size = 1; size <= 5; ++size) {
    ExpectAllWell(size, [&](Communicator& comm) -> std::string {
      int round = 0;
      for (int64_t count : kCounts) {
        for (int root = -1; root < size; ++root, ++round) {
          std::vector<int64_t> sizes(static_cast<size_t>(size));
          std::vector<std::vector<int64_t>> matrix(static_cast<size_t>(size), sizes);
          for (int a = 0; a < size; ++a) {
            sizes[a] = kCounts[(count + a) % 7];
            for (int b = 0; b < size; ++b) matrix[a][b] = kCounts[(count + 3 * a + 2 * b) % 7];
          }
          std::string error;
          if (root >= 0) error += CheckBroadcast(comm, round, root, count);
          error += CheckGather(comm, round, root, sizes, round % 2 == 0);
          error += CheckAllToAll(comm, round, matrix);
          if (!error.empty()) return error;
        }
      }
      return "";
    });
  }
}

TEST_P(CommunicatorTest, LargePayloadsGoInPieces) {
  for (int size : {1, 2, 5}) {
    ExpectAllWell(size, [&](Communicator& comm) -> std::string {
      const int64_t share = kSlotBytes / size / 64 * 64;
      int round = 0;
      for (int64_t more : {0, 1, 777, 0, 1}) {
        // One rank has much, the others little: they take part in every piece all the same.
        const int root = round % size;
        std::vector<int64_t> sizes(static_cast<size_t>(size), 5);
        std::vector<std::vector<int64_t>> matrix(static_cast<size_t>(size), sizes);
        sizes[root] = 2 * kSlotBytes + more;
        matrix[root][(root + 1) % size] = 3 * share + more;
        matrix[root][(root + 2) % size] = share + more;
        std::string error = CheckBroadcast(comm, round, root, kSlotBytes + more);
        error += CheckGather(comm, round, -1, sizes, round % 2 == 0);
        error += CheckGather(comm, round, (root + 1) % size, sizes, round % 2 == 1);
        error += CheckAllToAll(comm, round, matrix);
        if (!error.empty()) return error;
        ++round;
      }
      return "";
    });
  }
}

// Many collectives in any order: slots are used again, counters wrap, ranks run ahead of each
// other as far as they may.
TEST_P(CommunicatorTest, RandomRounds) {
  for (int size : {2, 3, 5, 8}) {
    ExpectAllWell(size, [&](Communicator& comm) -> std::string {
      std::mt19937 random(static_cast<uint32_t>(size));  // the same draws on every rank
      const auto below = [&](int n) { return static_cast<int>(random() % n); };
      const auto any_size = [&]() -> int64_t {
        return below(20) == 0 ? below(400'000) : below(99);
      };
      for (int round = 0; round < 60; ++round) {
        std::string error;
        const int root = below(size);
        switch (below(5)) {
          case 0:
            if (absl::Status s = comm.Barrier(); !s.ok()) error = s.ToString();
            break;
          case 1:
            error = CheckBroadcast(comm, round, root, any_size());
            break;
          case 2:
          case 3: {
            std::vector<int64_t> sizes(static_cast<size_t>(size));
            for (int64_t& bytes : sizes) bytes = any_size();
            error = CheckGather(comm, round, below(2) == 0 ? -1 : root, sizes, below(2) == 0);
            break;
          }
          default: {
            std::vector<std::vector<int64_t>> sizes(static_cast<size_t>(size));
            for (auto& row : sizes) {
              for (int to = 0; to < size; ++to) row.push_back(any_size());
            }
            error = CheckAllToAll(comm, round, sizes);
          }
        }
        if (!error.empty()) return error;
      }
      return "";
    });
  }
}

// A broadcast's root and a gather's givers do not wait: nobody reads what is not there yet, and
// nobody overwrites what is not read yet.
TEST_P(CommunicatorTest, RanksThatRunAheadOverwriteNothing) {
  ExpectAllWell(3, [&](Communicator& comm) -> std::string {
    for (int round = 0; round < 100; ++round) {
      std::string error = CheckBroadcast(comm, 2 * round, 0, 40);
      error += CheckGather(comm, 2 * round + 1, 2, {3, 70, 9}, false);
      if (!error.empty()) return error;
    }
    return "";
  });
}

}  // namespace
}  // namespace headway
