#include "runtime/comm/ordered_reduce.h"

#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/comm/local_communicator.h"

namespace headway {
namespace {

// Values of very different sizes: almost any other order of addition gives other bits.
std::vector<float> IllConditioned(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-3, 3);
  std::vector<float> values(count);
  for (float& value : values) value = std::ldexp(normal(random), exponent(random));
  return values;
}

// The contract's rule, read aloud: the sum over groups [begin, begin + width) of one element.
float ScalarTree(const std::vector<float>& groups, int begin, int width) {
  if (width == 1) return groups[begin];
  const float left = ScalarTree(groups, begin, width / 2);
  if (begin + width / 2 >= static_cast<int>(groups.size())) return left;
  return left + ScalarTree(groups, begin + width / 2, width / 2);
}

struct Problem {
  int rows = 1;
  int columns = 1;
  int groups = 1;
  bool with_bias = false;
  std::vector<float> partials;  // [groups][rows][columns]
  std::vector<float> bias;      // [columns]
  std::vector<float> residual;  // [rows][columns]

  Problem(int rows, int columns, int groups, bool with_bias, uint32_t seed)
      : rows(rows),
        columns(columns),
        groups(groups),
        with_bias(with_bias),
        partials(IllConditioned(static_cast<size_t>(groups) * rows * columns, seed)),
        bias(IllConditioned(static_cast<size_t>(columns), seed + 1)),
        residual(IllConditioned(static_cast<size_t>(rows) * columns, seed + 2)) {}

  std::vector<float> OfElement(int element) const {
    std::vector<float> values(static_cast<size_t>(groups));
    for (int g = 0; g < groups; ++g) values[g] = partials[g * rows * columns + element];
    return values;
  }

  std::vector<float> Expected() const {
    std::vector<float> expected = residual;
    for (int e = 0; e < rows * columns; ++e) {
      float sum = ScalarTree(OfElement(e), 0, 16);
      if (with_bias) sum += bias[e % columns];
      expected[e] += sum;
    }
    return expected;
  }
};

// What a rank's kernels leave in its roots: the value of each of its subtrees.
void FillRoots(const Problem& problem, OrderedReduce& reduce) {
  const std::span<const TreeNode> nodes = reduce.local_nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    float* matrix = reduce.root_matrix(static_cast<int>(i), problem.rows, problem.columns);
    for (int e = 0; e < problem.rows * problem.columns; ++e) {
      matrix[e] = ScalarTree(problem.OfElement(e), FirstGroup(nodes[i]), 1 << nodes[i].level);
    }
  }
}

// Runs the reduction on one thread a rank and expects the scalar tree's bits on each.
void ExpectTreeBits(const Problem& problem, const std::vector<int>& bounds,
                    int64_t gather_elements) {
  const int size = static_cast<int>(bounds.size()) - 1;
  const std::vector<float> expected = problem.Expected();
  const int stride = problem.columns + 3;
  constexpr float kPadding = -7.5f;
  auto comms = NewLocalCommunicators(size);
  std::vector<std::vector<float>> residuals(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto reduce = OrderedReduce::Create(*comms[rank], bounds, problem.groups,
                                          problem.rows * problem.columns + 5, gather_elements);
      ASSERT_TRUE(reduce.ok()) << reduce.status();
      residuals[rank].assign(static_cast<size_t>(problem.rows) * stride, kPadding);
      for (int repeat = 0; repeat < 2; ++repeat) {  // buffers of the first call do not leak
        FillRoots(problem, **reduce);
        for (int row = 0; row < problem.rows; ++row) {
          std::copy_n(&problem.residual[row * problem.columns], problem.columns,
                      &residuals[rank][row * stride]);
        }
        const absl::Status status = (*reduce)->Reduce(
            problem.rows, problem.columns, problem.with_bias ? problem.bias.data() : nullptr,
            residuals[rank].data(), stride);
        ASSERT_TRUE(status.ok()) << status;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < size; ++rank) {
    for (int row = 0; row < problem.rows; ++row) {
      ASSERT_EQ(std::memcmp(&residuals[rank][row * stride], &expected[row * problem.columns],
                            sizeof(float) * problem.columns),
                0)
          << "rank " << rank << " of " << size << ", row " << row << ", " << problem.groups
          << " groups";
      for (int c = problem.columns; c < stride; ++c) {
        ASSERT_EQ(residuals[rank][row * stride + c], kPadding);
      }
    }
  }
}

// Balanced, lopsided, and with empty runs at the front, in the middle, and at the end.
std::vector<std::vector<int>> Cuts(int groups, int size, std::mt19937& random) {
  std::vector<std::vector<int>> cuts(2, std::vector<int>(static_cast<size_t>(size) + 1));
  for (int rank = 0; rank <= size; ++rank) cuts[0][rank] = groups * rank / size;
  std::uniform_int_distribution<int> any(0, groups);
  for (int rank = 1; rank < size; ++rank) cuts[1][rank] = any(random);
  cuts[1][size] = groups;
  std::sort(cuts[1].begin(), cuts[1].end());
  return cuts;
}

constexpr int64_t kAlwaysGather = 1 << 20;
constexpr int64_t kNeverGather = 0;

TEST(OrderedReduceTest, SameBitsForEveryDegreeCutAndExchange) {
  std::mt19937 random(7);
  for (int groups = 1; groups <= 16; ++groups) {
    for (int size = 1; size <= 5; ++size) {
      for (const std::vector<int>& bounds : Cuts(groups, size, random)) {
        const Problem problem(5, 13, groups, groups % 2 == 0, static_cast<uint32_t>(groups));
        ExpectTreeBits(problem, bounds, kAlwaysGather);
        ExpectTreeBits(problem, bounds, kNeverGather);
      }
    }
  }
}

TEST(OrderedReduceTest, FewerElementsThanRanks) {
  for (int64_t gather : {kAlwaysGather, kNeverGather}) {
    ExpectTreeBits(Problem(1, 1, 9, true, 1), {0, 2, 4, 5, 7, 9}, gather);
    ExpectTreeBits(Problem(2, 1, 5, false, 2), {0, 1, 2, 3, 4, 5}, gather);
  }
}

TEST(OrderedReduceTest, EmptyRunsAtEitherEnd) {
  for (int64_t gather : {kAlwaysGather, kNeverGather}) {
    ExpectTreeBits(Problem(2, 5, 4, true, 3), {0, 0, 4, 4}, gather);
    ExpectTreeBits(Problem(2, 5, 4, true, 3), {0, 4, 4}, gather);
    ExpectTreeBits(Problem(2, 5, 4, true, 3), {0, 0, 0, 4}, gather);
  }
}

TEST(OrderedReduceTest, BothSidesOfTheThreshold) {
  const std::vector<int> bounds = {0, 5, 9};
  const int limit = static_cast<int>(OrderedReduce::kGatherElements);
  ExpectTreeBits(Problem(1, limit, 9, true, 4), bounds, OrderedReduce::kGatherElements);
  ExpectTreeBits(Problem(1, limit + 1, 9, true, 5), bounds, OrderedReduce::kGatherElements);
}

// The test's data can tell orders apart: a sum in the order of ranks, or with the bias on the wrong
// side, has other bits. So the tests above would see either fault.
TEST(OrderedReduceTest, OtherOrdersGiveOtherBits) {
  for (int groups = 3; groups <= 16; ++groups) {
    const Problem problem(5, 13, groups, true, static_cast<uint32_t>(groups));
    const std::vector<float> expected = problem.Expected();
    int left_to_right = 0, reversed = 0, bias_last = 0;
    for (int e = 0; e < 65; ++e) {
      const std::vector<float> values = problem.OfElement(e);
      float forwards = values[0], backwards = values[groups - 1];
      for (int g = 1; g < groups; ++g) {
        forwards += values[g];
        backwards += values[groups - 1 - g];
      }
      const float bias = problem.bias[e % 13];
      left_to_right += problem.residual[e] + (forwards + bias) != expected[e];
      reversed += problem.residual[e] + (backwards + bias) != expected[e];
      bias_last += (problem.residual[e] + ScalarTree(values, 0, 16)) + bias != expected[e];
    }
    if (groups > 3) {  // of 3 it is the tree itself
      EXPECT_GT(left_to_right, 0) << groups;
    }
    EXPECT_GT(reversed, 0) << groups;
    EXPECT_GT(bias_last, 0) << groups;
  }
}

TEST(OrderedReduceTest, RefusesWhatDoesNotFit) {
  auto comms = NewLocalCommunicators(2);
  const auto create = [&](std::vector<int> bounds, int groups, int64_t elements) {
    return OrderedReduce::Create(*comms[0], std::move(bounds), groups, elements).status().code();
  };
  EXPECT_EQ(create({0, 1, 2}, 0, 8), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({0, 1, 17}, 17, 8), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({0, 2}, 2, 8), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({0, 1, 1}, 2, 8), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({1, 1, 2}, 2, 8), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({0, 3, 2}, 2, 8), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({0, 1, 2}, 2, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({0, 1, 2}, 2, int64_t{1} << 40), absl::StatusCode::kInvalidArgument);
  auto reduce = OrderedReduce::Create(*comms[0], {0, 1, 2}, 2, 8);
  ASSERT_TRUE(reduce.ok());
  float residual[9] = {};
  const absl::Status status = (*reduce)->Reduce(3, 3, nullptr, residual, 3);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "ordered reduce: 3 x 3 elements, the limit is 8");
}

TEST(OrderedReduceTest, FailureOfTheCommunicatorLeavesTheResidualAlone) {
  for (int64_t gather : {kAlwaysGather, kNeverGather}) {
    auto comms = NewLocalCommunicators(2);
    auto reduce = OrderedReduce::Create(*comms[0], {0, 1, 2}, 2, 6, gather);
    ASSERT_TRUE(reduce.ok());
    comms[1]->Abort("rank 1 stops");
    float residual[6] = {1, 2, 3, 4, 5, 6};
    EXPECT_EQ((*reduce)->Reduce(2, 3, nullptr, residual, 3), absl::AbortedError("rank 1 stops"));
    for (int i = 0; i < 6; ++i) EXPECT_EQ(residual[i], static_cast<float>(i + 1));
  }
}

}  // namespace
}  // namespace headway
