#ifndef HEADWAY_RUNTIME_TRANSFER_MANIFEST_H_
#define HEADWAY_RUNTIME_TRANSFER_MANIFEST_H_

#include <cstdint>
#include <vector>

namespace headway {

// What one decode rank must have received before its part of a sequence may be read. The digest is
// a sum over runs of HashCombine(place of the run, digest of its bytes), so it does not depend on
// the order of arrival, and parts from several prefill ranks add up.
struct RankManifest {
  int64_t runs = 0;  // (layer, KV head, block)
  uint64_t digest = 0;
  void Add(int layer, int kv_head, int block_index, uint64_t run_digest);
  void Add(const RankManifest& part) { runs += part.runs, digest += part.digest; }
  bool operator==(const RankManifest&) const = default;
};

// The sealed list of a transfer, one entry a decode rank.
struct Manifest {
  uint64_t reservation_id = 0;
  uint64_t epoch = 0;
  std::vector<RankManifest> ranks;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_MANIFEST_H_
