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
  absl::StatusOr<std::unique_ptr<RankEngine>> engine =
      RankEngine::Create(checkpoint, options, comm, std::move(progress));
  if (!engine.ok()) {
    // The others wait for this rank at the exchange below.
    comm.Abort(absl::StrCat("rank ", comm.rank(), " could not load: ", engine.status().message()));
    return engine.status();
  }
  host->engine_ = *std::move(engine);
  host->transport_ = std::move(transport);
  host->worker_ = std::make_unique<RankWorker>(*host->engine_, comm, host->transport_.get(), clock);
  HEADWAY_ASSIGN_OR_RETURN(host->addresses_, host->worker_->ExchangeAddresses());
  return host;
}

}  // namespace headway
