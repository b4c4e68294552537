#include "runtime/main/stream_stats.h"

#include <algorithm>
#include <cmath>

namespace headway {

void StreamStats::Add(int64_t now_nanos, int tokens) {
  arrivals_.insert(arrivals_.end(), static_cast<size_t>(tokens), now_nanos);
}

int64_t StreamStats::ttft_nanos() const {
  return arrivals_.empty() ? 0 : arrivals_.front() - start_nanos_;
}

int64_t StreamStats::ItlNanos(double quantile) const {
  if (arrivals_.size() < 2) return 0;
  std::vector<int64_t> gaps;
  for (size_t i = 1; i < arrivals_.size(); ++i) gaps.push_back(arrivals_[i] - arrivals_[i - 1]);
  std::sort(gaps.begin(), gaps.end());
  const double rank = std::ceil(quantile * static_cast<double>(gaps.size()));
  const auto index = static_cast<size_t>(std::max(rank - 1, 0.0));
  return gaps[std::min(index, gaps.size() - 1)];
}

double StreamStats::TokensPerSecond() const {
  if (arrivals_.size() < 2) return 0;
  const int64_t nanos = arrivals_.back() - arrivals_.front();
  return nanos == 0
             ? 0
             : static_cast<double>(arrivals_.size() - 1) / (static_cast<double>(nanos) * 1e-9);
}

}  // namespace headway
