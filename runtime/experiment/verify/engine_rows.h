#ifndef HEADWAY_RUNTIME_EXPERIMENT_VERIFY_ENGINE_ROWS_H_
#define HEADWAY_RUNTIME_EXPERIMENT_VERIFY_ENGINE_ROWS_H_

#include <functional>
#include <memory>
#include <string>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/experiment/verify/row.h"
#include "runtime/node/local_group.h"

namespace headway {

// Rows that run inside this process. `checkpoint` outlives them; each loads when it runs and frees
// everything after.

// No cache at all: every step recomputes the whole sequence from its first token. The row that all
// others are compared with. Internal when a recomputation does not give the bits that the one
// before gave.
std::unique_ptr<VerifyRow> NewUncachedRow(const Checkpoint& checkpoint,
                                          const EngineOptions& engine);

// A mixed node with this configuration, alone or in a batch with `companions` other sequences of
// various lengths. `prompt_limit`: as VerifyRow's.
std::unique_ptr<VerifyRow> NewMixedRow(std::string name, const Checkpoint& checkpoint,
                                       LocalGroupOptions options, int companions = 0,
                                       int prompt_limit = 0);

// A prefill node and a decode node that transfer KV. `options` hold what each needs but roles and
// transports. `wrap_transport` puts something of the caller's around each transport; empty:
// nothing.
std::unique_ptr<VerifyRow> NewPairRow(
    std::string name, const Checkpoint& checkpoint, LocalGroupOptions prefill,
    LocalGroupOptions decode,
    std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)> wrap_transport = {});

}  // namespace headway

#endif  // HEADWAY_RUNTIME_EXPERIMENT_VERIFY_ENGINE_ROWS_H_
