#ifndef HEADWAY_RUNTIME_TRANSFER_PLAN_H_
#define HEADWAY_RUNTIME_TRANSFER_PLAN_H_

#include <vector>

#include "runtime/model/shard_plan.h"

namespace headway {

// One KV head's way from a prefill rank to a decode rank. Local heads index the ranks' own caches.
struct HeadRoute {
  int kv_head = 0;  // global
  int source_rank = 0, source_head = 0;
  int target_rank = 0, target_head = 0;
  bool operator==(const HeadRoute&) const = default;
};

// Every (decode rank, KV head) appears once; of the prefill ranks that hold a head, the load is
// spread evenly. Pure; for any two degrees of the same model.
std::vector<HeadRoute> PlanTransfer(const ShardPlan& prefill, const ShardPlan& decode);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_PLAN_H_
