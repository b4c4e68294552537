#include "runtime/transfer/plan.h"

#include <algorithm>
#include <queue>

namespace headway {
namespace {

// One decode rank's need for one KV head, and the prefill ranks that hold it.
struct Demand {
  HeadRoute route;
  std::vector<int> sources;
};

// Index of `kv_head` in a rank's own cache, or -1.
int LocalHead(const RankShard& shard, int kv_head) {
  const auto found = std::lower_bound(shard.kv_heads.begin(), shard.kv_heads.end(), kv_head);
  if (found == shard.kv_heads.end() || *found != kv_head) return -1;
  return static_cast<int>(found - shard.kv_heads.begin());
}

std::vector<Demand> CollectDemands(const ShardPlan& prefill, const ShardPlan& decode) {
  std::vector<Demand> demands;
  for (int target = 0; target < static_cast<int>(decode.ranks.size()); ++target) {
    const std::vector<int>& heads = decode.ranks[target].kv_heads;
    for (int local = 0; local < static_cast<int>(heads.size()); ++local) {
      Demand demand = {
          .route = {.kv_head = heads[local], .target_rank = target, .target_head = local}};
      for (int source = 0; source < static_cast<int>(prefill.ranks.size()); ++source) {
        if (LocalHead(prefill.ranks[source], heads[local]) >= 0) demand.sources.push_back(source);
      }
      if (!demand.sources.empty()) demands.push_back(std::move(demand));
    }
  }
  return demands;
}

// Moves one route away from `from` along the shortest chain of reassignments that ends at a rank
// with at least two routes less. False when there is none: then no assignment has a lower maximum.
bool Relieve(int from, std::vector<Demand>& demands, std::vector<int>& load) {
  std::vector<int> via(load.size(), -1);  // the demand whose move leads to this rank
  std::vector<bool> seen(load.size(), false);
  std::queue<int> frontier;
  frontier.push(from);
  seen[from] = true;
  while (!frontier.empty()) {
    const int rank = frontier.front();
    frontier.pop();
    if (load[rank] <= load[from] - 2) {
      for (int at = rank; at != from;) {
        HeadRoute& route = demands[via[at]].route;
        const int previous = route.source_rank;
        route.source_rank = at;
        at = previous;
      }
      ++load[rank];
      --load[from];
      return true;
    }
    for (int i = 0; i < static_cast<int>(demands.size()); ++i) {
      if (demands[i].route.source_rank != rank) continue;
      for (int next : demands[i].sources) {
        if (seen[next]) continue;
        seen[next] = true;
        via[next] = i;
        frontier.push(next);
      }
    }
  }
  return false;
}

}  // namespace

std::vector<HeadRoute> PlanTransfer(const ShardPlan& prefill, const ShardPlan& decode) {
  std::vector<Demand> demands = CollectDemands(prefill, decode);
  std::vector<int> load(prefill.ranks.size(), 0);
  for (Demand& demand : demands) {
    demand.route.source_rank = *std::min_element(demand.sources.begin(), demand.sources.end(),
                                                 [&](int a, int b) { return load[a] < load[b]; });
    ++load[demand.route.source_rank];
  }
  // First come, first served is not yet even: a head held once may come after its holder was given
  // heads that others hold too.
  for (bool changed = true; changed;) {
    changed = false;
    for (int rank = 0; rank < static_cast<int>(load.size()); ++rank) {
      while (Relieve(rank, demands, load)) changed = true;
    }
  }
  std::vector<HeadRoute> routes;
  routes.reserve(demands.size());
  for (const Demand& demand : demands) {
    routes.push_back(demand.route);
    HeadRoute& route = routes.back();
    route.source_head = LocalHead(prefill.ranks[route.source_rank], route.kv_head);
  }
  return routes;
}

}  // namespace headway
