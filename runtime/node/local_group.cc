#include "runtime/node/local_group.h"

#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/local_communicator.h"

namespace headway {

absl::StatusOr<std::unique_ptr<LocalGroup>> LocalGroup::Create(const Checkpoint& checkpoint,
                                                               const LocalGroupOptions& options,
                                                               const Clock& clock) {
  if (options.degree < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor-parallel degree ", options.degree, " is below 1"));
  }
  auto group = std::unique_ptr<LocalGroup>(new LocalGroup());
  group->comms_ = NewLocalCommunicators(options.degree);
  if (options.wrap_communicator) {
    for (auto& comm : group->comms_) comm = options.wrap_communicator(std::move(comm));
  }
  group->hosts_.resize(options.degree);
  std::vector<absl::Status> statuses(options.degree);
  auto load = [&](int rank) {
    absl::StatusOr<std::unique_ptr<RankHost>> host =
        RankHost::Create(checkpoint, options.engine, *group->comms_[rank],
                         options.new_transport ? options.new_transport(rank) : nullptr, clock);
    statuses[rank] = host.status();
    if (host.ok()) group->hosts_[rank] = *std::move(host);
  };
  {
    std::vector<std::thread> loaders;
    for (int rank = 1; rank < options.degree; ++rank) loaders.emplace_back(load, rank);
    load(0);
    for (std::thread& loader : loaders) loader.join();
  }
  for (const absl::Status& status : statuses) HEADWAY_RETURN_IF_ERROR(status);
  for (int rank = 1; rank < options.degree; ++rank) {
    group->followers_.emplace_back([host = group->hosts_[rank].get(), rank] {
      absl::Status status = host->Join();
      if (status.ok()) status = host->worker().Follow();
      if (!status.ok()) {
        LogError(absl::StrCat("rank ", rank, " left: ", status.message()));
      }
    });
  }
  if (absl::Status status = group->hosts_[0]->Join(); !status.ok()) {
    group->comms_[0]->Abort(std::string(status.message()));
    return status;
  }
  group->loop_ =
      std::make_unique<NodeLoop>(options.node, group->hosts_[0]->engine(),
                                 group->hosts_[0]->worker(), group->hosts_[0]->addresses(), clock);
  group->loop_->Start();
  return group;
}

int LocalGroup::open_transfers() const {
  int open = 0;
  for (const std::unique_ptr<RankHost>& host : hosts_) open += host->worker().open_transfers();
  return open;
}

LocalGroup::~LocalGroup() {
  if (loop_ != nullptr) loop_->Stop();
  for (std::thread& follower : followers_) follower.join();
  loop_.reset();
  // Ends of transfers go before the transports of their peers in the same process may.
  hosts_.clear();
}

}  // namespace headway
