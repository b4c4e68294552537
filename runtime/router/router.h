#ifndef HEADWAY_RUNTIME_ROUTER_ROUTER_H_
#define HEADWAY_RUNTIME_ROUTER_ROUTER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/clock.h"
#include "runtime/cluster/call_scope.h"
#include "runtime/cluster/lease.h"
#include "runtime/cluster/membership.h"
#include "runtime/router/inference.h"
#include "runtime/router/prompt_encoder.h"

namespace headway {

struct RouterOptions {
  // What reservations are asked for. They are renewed three times as often while the prompt waits
  // and is computed, so this need only be longer than a router may be silent.
  double lease_seconds = kLeaseSeconds;
  // How long giving a reservation back may take after its request has ended. What is not given
  // back in time runs out with its lease.
  double release_seconds = 5;
  // Chooses the seed of a request that has none. Unset: a random one below 2^53, which every JSON
  // reader holds exactly.
  std::function<uint64_t()> new_seed;
  // What GetModel tells of the tokens that end an answer; nodes have their own from the checkpoint.
  std::vector<int32_t> end_token_ids;
};

// Takes requests, text or tokens, and has nodes answer them. Keeps nothing between requests.
// Thread-safe. Each call does its work on the caller's thread and waits for nodes there, at most
// until the scope's deadline or cancellation. Errors are those of inference.proto.
class Router {
 public:
  // References outlive the router.
  Router(Membership& nodes, const PromptEncoder& encoder, const RouterOptions& options,
         const Clock& clock);

  absl::StatusOr<GenerateOutcome> Generate(CallScope& scope, const GenerateInput& input,
                                           DeltaSink& sink);
  absl::StatusOr<ScoreOutcome> Score(CallScope& scope, const ScoreInput& input);
  absl::StatusOr<std::vector<int32_t>> Tokenize(const Prompt& prompt) const;
  absl::StatusOr<std::string> Detokenize(const std::vector<int32_t>& ids,
                                         bool include_control_tokens) const;
  // Unavailable while no node has answered yet.
  absl::StatusOr<ServedModel> GetModel() const;

 private:
  class Generation;

  Membership& nodes_;
  const PromptEncoder& encoder_;
  const RouterOptions options_;
  const Clock& clock_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_ROUTER_ROUTER_H_
