// `headway node`: flags -> checkpoint, communicator, ranks, loop, service -> wait -> drain.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/cluster/launcher.h"
#include "runtime/cluster/ready_line.h"
#include "runtime/comm/local_communicator.h"
#include "runtime/comm/shm_communicator.h"
#include "runtime/main/event.h"
#include "runtime/main/loading_stop.h"
#include "runtime/main/node_options.h"
#include "runtime/main/node_setup.h"
#include "runtime/main/rank_arguments.h"
#include "runtime/main/rank_options.h"
#include "runtime/main/stop_signal.h"
#include "runtime/node/node_loop.h"
#include "runtime/node/rank_host.h"
#include "runtime/server/health_watch.h"
#include "runtime/server/node_service.h"
#include "runtime/server/server.h"

namespace headway {
namespace {

// After the group broke every request has ended already; this is for the reasons to reach those
// who asked, who would otherwise only hear that their calls were cancelled.
constexpr double kLastWordsSeconds = 2;
constexpr absl::Duration kRankStartTimeout = absl::Minutes(10);

// A descriptor that is closed on the way out.
class OwnedFd {
 public:
  explicit OwnedFd(int fd) : fd_(fd) {}
  ~OwnedFd() {
    if (fd_ >= 0) close(fd_);
  }
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string KvDevicesOf(const NodeMainOptions& options) {
  return options.kv_devices.empty() ? KvDevices(options.listen) : options.kv_devices;
}

// The other ranks' processes. When one ends unasked the communicator is aborted, so that nobody
// waits for it.
class RankProcesses {
 public:
  static absl::StatusOr<std::unique_ptr<RankProcesses>> Start(const NodeMainOptions& options,
                                                              const NodeSetup& setup, int comm_fd,
                                                              Communicator& comm,
                                                              LoadingStop& loading) {
    HEADWAY_ASSIGN_OR_RETURN(
        std::unique_ptr<Launcher> launcher,
        Launcher::Create({.program = options.rank_program, .forward_output = true}));
    auto processes =
        std::unique_ptr<RankProcesses>(new RankProcesses(std::move(launcher), comm, loading));
    for (int rank = 1; rank < options.tp; ++rank) {
      RankMainOptions rank_options = {.name = absl::StrCat(options.name, "/rank-", rank),
                                      .rank = rank,
                                      .tp = options.tp,
                                      .model = options.model,
                                      .kv_blocks = setup.kv_blocks,
                                      .max_positions = setup.max_positions,
                                      .kv_devices = KvDevicesOf(options),
                                      .role = options.role,
                                      .comm_fd = comm_fd,
                                      .parent_pid = getpid()};
      rank_options.model.threads = setup.threads;
      rank_options.model.activations = setup.numerics.activations;
      HEADWAY_RETURN_IF_ERROR(processes->launcher_
                                  ->Start({.name = rank_options.name,
                                           .args = RankArguments(rank_options),
                                           .inherit_fds = {comm_fd}})
                                  .status());
    }
    return processes;
  }
  ~RankProcesses() {
    stop_.Set();
    watcher_.join();
  }

  absl::Status WaitReady(int ranks) {
    for (int child = 0; child < ranks; ++child) {
      HEADWAY_RETURN_IF_ERROR(launcher_->WaitReady(child, kRankStartTimeout).status());
    }
    return absl::OkStatus();
  }
  absl::Status failure() const { return launcher_->failure(); }
  // Who hears of a rank that ends, on another thread, at once if one has; empty: nobody any more.
  void OnFailure(std::function<void(const absl::Status&)> tell) {
    std::lock_guard lock(mutex_);
    tell_ = std::move(tell);
    if (failed_ && tell_) tell_(failure());
  }

 private:
  RankProcesses(std::unique_ptr<Launcher> launcher, Communicator& comm, LoadingStop& loading)
      : launcher_(std::move(launcher)), kills_(loading, *launcher_), watcher_([this, &comm] {
          if (WaitReadable(stop_.fd(), launcher_->failure_fd()) == 1) {
            comm.Abort(std::string(launcher_->failure().message()));
            std::lock_guard lock(mutex_);
            failed_ = true;
            if (tell_) tell_(launcher_->failure());
          }
        }) {}

  std::unique_ptr<Launcher> launcher_;
  LoadingStop::Kills kills_;
  Event stop_;
  std::mutex mutex_;
  std::function<void(const absl::Status&)> tell_;  // guarded by mutex_
  bool failed_ = false;                            // guarded by mutex_
  std::thread watcher_;
};

void LogProgress(int done, int total) {
  if (done == total) LogInfo(absl::StrCat("loaded ", total, " layers"));
}

}  // namespace

absl::Status RunNode(const NodeMainOptions& options) {
  SetLogName(options.name);
  StopSignal signal;
  LoadingStop loading(signal);
  HEADWAY_ASSIGN_OR_RETURN(const NodeRole role, ParseNodeRole(options.role));
  HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                           Checkpoint::Open(options.model.model));
  HEADWAY_ASSIGN_OR_RETURN(const NodeSetup setup,
                           SettleNode(*checkpoint, options.model, options.tp,
                                      {.blocks = options.kv_blocks,
                                       .memory_bytes = options.kv_memory,
                                       .max_positions = options.max_positions}));

  // The ranks start before this process has threads of a gRPC server.
  std::unique_ptr<Communicator> comm;
  std::unique_ptr<RankProcesses> ranks;
  if (options.tp == 1) {
    comm = std::move(NewLocalCommunicators(1)[0]);
  } else {
    HEADWAY_ASSIGN_OR_RETURN(const int fd, NewShmSegment(options.tp));
    OwnedFd owned(fd);
    HEADWAY_ASSIGN_OR_RETURN(comm, NewShmCommunicator({.rank = 0, .size = options.tp, .fd = fd}));
    HEADWAY_ASSIGN_OR_RETURN(ranks, RankProcesses::Start(options, setup, fd, *comm, loading));
  }
  HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                           NewKvTransport(role, KvDevicesOf(options)));
  HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<RankHost> host,
                           RankHost::Create(*checkpoint, setup.Engine(), *comm,
                                            std::move(transport), Clock::Real(), LogProgress));
  if (ranks != nullptr) HEADWAY_RETURN_IF_ERROR(ranks->WaitReady(options.tp - 1));
  if (absl::Status status = host->Join(); !status.ok()) {
    // A rank's own words say more than that it is gone.
    return ranks != nullptr && !ranks->failure().ok() ? ranks->failure() : status;
  }

  const uint64_t epoch =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count());
  NodeLoop loop(
      {.role = role, .stuck_seconds = static_cast<double>(options.stuck_seconds), .epoch = epoch},
      host->engine(), host->worker(), host->addresses(), Clock::Real());
  Event broken;
  loop.OnFailure([&](const absl::Status& status) {
    LogError(std::string(status.message()));
    broken.Set();
  });
  loop.Start();
  // An idle node would find out with the next request only.
  if (ranks != nullptr) {
    ranks->OnFailure([&loop](const absl::Status& status) { loop.Break(status); });
  }
  const absl::Cleanup unwatch = [&ranks] {
    if (ranks != nullptr) ranks->OnFailure({});
  };

  std::unique_ptr<grpc::Service> service =
      NewNodeService(loop, std::filesystem::path(options.model.model).filename().string());
  HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<Server> server,
                           Server::Start(options.listen, {{service.get(), "headway.v1.Node"}}));
  loading.Over();
  auto health = std::make_unique<HealthWatch>([&loop] { return loop.health(); }, *server);
  LogInfo(absl::StrCat(options.role, " node of ", options.tp, " ranks with ", setup.threads,
                       " threads each and ", setup.kv_blocks, " KV blocks serves on ",
                       server->address()));
  HEADWAY_RETURN_IF_ERROR(WriteReadyLine(options.ready_fd, server->address()));

  const bool stopped = WaitReadable(signal.fd(), broken.fd()) == 0;
  health.reset();
  const absl::Status failure = loop.health();
  if (stopped) {
    signal.TakeFirst();
    // First the work, for which calls must still come in; then what is on its way to clients.
    const double start = Clock::Real().NowSeconds();
    if (!loop.Drain(kDrainSeconds)) LogWarning("what still runs is cancelled");
    server->Shutdown(std::max(0.0, start + kDrainSeconds - Clock::Real().NowSeconds()));
  } else {
    server->Shutdown(kLastWordsSeconds);
  }
  loop.Stop();
  return stopped ? absl::OkStatus() : failure;
}

}  // namespace headway
