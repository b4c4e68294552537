// What the ranks of one host pay to meet: barriers, the sum of a row, and the wake of idle ranks.
// Ranks are processes of one thread each.
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/clock.h"
#include "runtime/comm/communicator_harness.h"
#include "runtime/comm/ordered_reduce.h"

namespace headway {
namespace {

constexpr int kGroups = 9;  // of a model with 9 query heads

std::string Text(double best, double median) {
  char text[64];
  std::snprintf(text, sizeof(text), "best %9.2f us, median %9.2f us", best, median);
  return text;
}

double Micros(int64_t nanos) { return static_cast<double>(nanos) * 1e-3; }

// Of 15 batches of calls of `once`: what one takes on rank 0 in the best batch and in the median.
std::string Times(Communicator& comm, int calls_per_batch,
                  const std::function<absl::Status()>& once) {
  constexpr int kBatches = 15;
  std::vector<double> micros;
  for (int batch = 0; batch <= kBatches; ++batch) {  // the first one warms up
    if (absl::Status s = comm.Barrier(); !s.ok()) return s.ToString();
    const int64_t start = Clock::Real().NowNanos();
    for (int i = 0; i < calls_per_batch; ++i) {
      if (absl::Status s = once(); !s.ok()) return s.ToString();
    }
    micros.push_back(Micros(Clock::Real().NowNanos() - start) / calls_per_batch);
  }
  std::sort(micros.begin() + 1, micros.end());
  return Text(micros[1], micros[1 + kBatches / 2]);
}

void Print(const std::string& what, int ranks, const RankProgram& program) {
  const auto answers = RunRanks(RankForm::kShmProcesses, ranks, absl::Seconds(30), program);
  std::printf("%-44s %2d ranks %s\n", what.c_str(), ranks, answers[0].c_str());
  std::fflush(stdout);
}

RankProgram Reduction(int rows, int columns, int64_t gather_elements) {
  return [=](Communicator& comm) -> std::string {
    std::vector<int> bounds;
    for (int rank = 0; rank <= comm.size(); ++rank) {
      bounds.push_back(kGroups * rank / comm.size());
    }
    auto reduce =
        OrderedReduce::Create(comm, bounds, kGroups, int64_t{rows} * columns, gather_elements);
    if (!reduce.ok()) return reduce.status().ToString();
    std::vector<float> residual(static_cast<size_t>(rows) * columns);
    for (size_t i = 0; i < (*reduce)->local_nodes().size(); ++i) {
      float* matrix = (*reduce)->root_matrix(static_cast<int>(i), rows, columns);
      std::fill_n(matrix, rows * columns, 1.0f);
    }
    const int calls = std::clamp(2'000'000 / (rows * columns), 5, 500);
    return Times(comm, calls, [&] {
      return (*reduce)->Reduce(rows, columns, nullptr, residual.data(), columns);
    });
  };
}

// From rank 0's word to the arrival of the last rank's answer, after 2 ms of rest.
std::string WakeMicros(Communicator& comm) {
  std::vector<double> micros;
  const std::vector<int64_t> sizes(static_cast<size_t>(comm.size()), 1);
  std::vector<std::byte> all(sizes.size());
  for (int i = 0; i < 100; ++i) {
    std::byte byte{};
    if (comm.rank() == 0) {
      const timespec rest = {0, 2'000'000};
      nanosleep(&rest, nullptr);
    }
    const int64_t start = Clock::Real().NowNanos();
    absl::Status status = comm.Broadcast(0, {&byte, 1});
    if (status.ok()) status = comm.Gather(0, {&byte, 1}, sizes, all.data());
    if (!status.ok()) return status.ToString();
    micros.push_back(Micros(Clock::Real().NowNanos() - start));
  }
  std::sort(micros.begin(), micros.end());
  return Text(micros.front(), micros[micros.size() / 2]);
}

void Main() {
  for (int ranks : {2, 3, 8}) {
    Print("barrier", ranks,
          [](Communicator& comm) { return Times(comm, 500, [&] { return comm.Barrier(); }); });
  }
  for (int ranks : {2, 3}) Print("broadcast to idle ranks and their answer", ranks, WakeMicros);
  for (int ranks : {2, 3}) {
    for (int rows : {1, 4, 8, 16, 32, 64, 512}) {
      const std::string what = absl::StrCat("sum of ", rows, " x 576 floats");
      Print(what + ", gathered", ranks, Reduction(rows, 576, int64_t{1} << 30));
      Print(what + ", in slices", ranks, Reduction(rows, 576, 0));
    }
  }
}

}  // namespace
}  // namespace headway

int main() { headway::Main(); }
