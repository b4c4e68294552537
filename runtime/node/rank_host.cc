#include "runtime/node/rank_host.h"

#include <utility>

#include "runtime/base/status.h"

namespace headway {

absl::StatusOr<std::unique_ptr<RankHost>> RankHost::Create(const Checkpoint& checkpoint,
                                                           const EngineOptions& options,
                                                           Communicator& comm,
                                                           std::unique_ptr<Transport> transport,
                                                           const Clock& clock,
                                                           std::function<void(int, int)> progress) {
  auto host = std::unique_ptr<RankHost>(new RankHost());
  HEADWAY_ASSIGN_OR_RETURN(host->engine_,
                           RankEngine::Create(checkpoint, options, comm, std::move(progress)));
  host->transport_ = std::move(transport);
  host->worker_ = std::make_unique<RankWorker>(*host->engine_, comm, host->transport_.get(), clock);
  return host;
}

absl::Status RankHost::Join() {
  HEADWAY_ASSIGN_OR_RETURN(addresses_, worker_->ExchangeAddresses());
  return absl::OkStatus();
}

}  // namespace headway
