#ifndef HEADWAY_RUNTIME_MAIN_STREAM_STATS_H_
#define HEADWAY_RUNTIME_MAIN_STREAM_STATS_H_

#include <cstdint>
#include <vector>

namespace headway {

// How one stream of tokens arrived at the client. Thread-compatible.
class StreamStats {
 public:
  // `start_nanos`: when the request was sent.
  explicit StreamStats(int64_t start_nanos) : start_nanos_(start_nanos) {}

  // Some tokens arrived together.
  void Add(int64_t now_nanos, int tokens);

  int64_t ttft_nanos() const;  // to the first token; 0 while there is none
  // The gap between neighbouring tokens that a share `quantile` of all gaps does not exceed
  // (nearest rank); 0 with fewer than two tokens. Tokens that arrive together are 0 apart.
  int64_t ItlNanos(double quantile) const;
  // Of the tokens after the first; 0 with fewer than two, or all at once.
  double TokensPerSecond() const;

 private:
  const int64_t start_nanos_;
  std::vector<int64_t> arrivals_;  // of each token
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_STREAM_STATS_H_
