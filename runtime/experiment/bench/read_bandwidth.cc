#include "runtime/experiment/bench/read_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/device/host_buffer.h"
#include "runtime/device/thread_team.h"

namespace headway {

absl::StatusOr<double> MeasureReadBandwidth(int threads) {
  constexpr size_t kBytes = size_t{128} << 20;
  constexpr int kPasses = 5;
  constexpr int kStride = 32;  // words: four cache lines a turn
  std::vector<HostBuffer> buffers;
  for (int i = 0; i < threads; ++i) {
    HEADWAY_ASSIGN_OR_RETURN(HostBuffer buffer, HostBuffer::Allocate(kBytes));
    std::memset(buffer.data(), 1, kBytes);
    buffers.push_back(std::move(buffer));
  }
  ThreadTeam team(threads);
  std::atomic<uint64_t> sink = 0;  // keeps the reads from being optimised away
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double start = Clock::Real().NowSeconds();
    team.Run([&](int thread) {
      const uint64_t* words = buffers[thread].As<uint64_t>();
      uint64_t a = 0, b = 0, c = 0, d = 0;
      for (size_t i = 0; i < kBytes / sizeof(uint64_t); i += kStride) {
        a += words[i], b += words[i + 8], c += words[i + 16], d += words[i + 24];
      }
      sink += a + b + c + d;
    });
    best = std::max(best,
                    static_cast<double>(kBytes) * threads / (Clock::Real().NowSeconds() - start));
  }
  return best;
}

}  // namespace headway
