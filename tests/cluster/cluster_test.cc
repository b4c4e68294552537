// Whole clusters of processes on this machine: clients that are killed, processes that end, what
// stays behind.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/cluster/call_scope.h"
#include "runtime/cluster/local_cluster.h"
#include "runtime/cluster/node_client.h"
#include "runtime/cluster/topology.h"
#include "runtime/server/client.h"
#include "tests/golden_tensors.h"
#include "tests/shared_data.h"
#include "tests/test_model.h"

namespace headway {
namespace {

constexpr char kHeadway[] = "runtime/main/headway";
constexpr double kCallSeconds = 120;

std::unique_ptr<LocalCluster> StartCluster(const std::string& topology, const std::string& model,
                                           std::vector<std::string> node_flags = {}) {
  LocalClusterOptions options;
  options.topology = *ParseTopology(topology);
  options.model = model;
  options.node_flags = std::move(node_flags);
  options.launcher.program = std::filesystem::absolute(kHeadway);
  absl::StatusOr<std::unique_ptr<LocalCluster>> cluster = LocalCluster::Start(options);
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return cluster.ok() ? *std::move(cluster) : nullptr;
}

absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const LocalCluster& cluster) {
  CallScope scope(CallScope::DeadlineAfter(kCallSeconds));
  return Client::Connect(scope, cluster.router_address(), kCallSeconds);
}

v1::NodeLoad LoadOf(const LocalCluster::Node& node) {
  CallScope scope(CallScope::DeadlineAfter(kCallSeconds));
  absl::StatusOr<v1::NodeLoad> load = NodeClient::Connect(node.address)->GetLoad(scope);
  EXPECT_TRUE(load.ok()) << load.status();
  return load.value_or(v1::NodeLoad());
}

// Looks until nothing runs and every block is free again. A block that leaks makes the test time
// out here.
void WaitIdle(const LocalCluster& cluster) {
  for (const LocalCluster::Node& node : cluster.nodes()) {
    for (;;) {
      const v1::NodeLoad load = LoadOf(node);
      if (load.free_blocks() == load.total_blocks() &&
          load.running() + load.waiting() + load.reservations() == 0)
        break;
    }
  }
}

// A `headway generate` that streams to a pipe.
class ClientProcess {
 public:
  explicit ClientProcess(std::vector<std::string> args) {
    int fds[2];
    EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    args.insert(args.begin(), kHeadway);
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, kHeadway, &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    out_ = fds[0];
  }
  ~ClientProcess() { close(out_); }

  // Waits until it has printed at least `bytes` more, or has ended. False when it ended first.
  bool WaitForOutput(size_t bytes) {
    std::string buffer(bytes, '\0');
    while (bytes > 0) {
      const ssize_t got = read(out_, buffer.data(), bytes);
      if (got <= 0) return false;
      bytes -= got;
    }
    return true;
  }
  void Kill() { kill(pid_, SIGKILL); }
  int WaitForEnd() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return status;
  }

 private:
  pid_t pid_ = 0;
  int out_ = -1;
};

// The parent of a process; 0 when it has gone.
pid_t ParentOf(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    if (word == "PPid:") {
      status >> pid;
      return pid;
    }
  }
  return 0;
}

// The `headway rank` processes among this process's descendants.
std::vector<pid_t> RankProcesses() {
  std::vector<pid_t> ranks;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid == 0) continue;
    std::ifstream command(entry.path() / "cmdline");
    std::string program, verb;
    std::getline(command, program, '\0');
    std::getline(command, verb, '\0');
    if (verb != "rank") continue;
    pid_t ancestor = pid;
    while (ancestor > 1 && ancestor != getpid()) ancestor = ParentOf(ancestor);
    if (ancestor == getpid()) ranks.push_back(pid);
  }
  return ranks;
}

class ClusterTest : public ::testing::Test {
 protected:
  static std::string TinyModel() { return GoldenPath("models/llama_gqa_9_3"); }
};

TEST_F(ClusterTest, EveryTopologyContinuesAsTheGoldenValues) {
  GoldenTensors golden = ReadGolden(GoldenPath("models/llama_gqa_9_3/expected.safetensors"));
  const GoldenTensor& ids = golden["ids"];
  const GoldenTensor& greedy = golden["greedy"];
  for (const char* topology :
       {"1xM:tp1", "1xM:tp3", "1xP:tp1,1xD:tp2", "1xP:tp3,1xD:tp2", "1xP:tp2,1xD:tp1"}) {
    SCOPED_TRACE(topology);
    std::unique_ptr<LocalCluster> cluster =
        StartCluster(topology, TinyModel(), {"--kv-dtype", "f32", "--threads", "1"});
    ASSERT_NE(cluster, nullptr);
    absl::StatusOr<std::unique_ptr<Client>> client = ConnectTo(*cluster);
    ASSERT_TRUE(client.ok()) << client.status();
    for (int i = 0; i < ids.shape[0]; ++i) {
      const int32_t* prompt = ids.ints.data() + i * ids.shape[1];
      v1::GenerateRequest request;
      request.mutable_prompt()->mutable_token_ids()->mutable_ids()->Add(prompt, prompt + 8);
      request.mutable_options()->set_max_tokens(static_cast<int>(greedy.shape[1]));
      request.mutable_options()->set_ignore_eos(true);
      std::vector<int32_t> tokens;
      CallScope scope(CallScope::DeadlineAfter(kCallSeconds));
      absl::StatusOr<v1::GenerateSummary> summary =
          (*client)->Generate(scope, request, [&](const v1::GenerateResponse& response) {
            for (const v1::OutputToken& token : response.tokens()) tokens.push_back(token.id());
            return true;
          });
      ASSERT_TRUE(summary.ok()) << summary.status();
      EXPECT_EQ(tokens, std::vector<int32_t>(greedy.ints.begin() + i * greedy.shape[1],
                                             greedy.ints.begin() + (i + 1) * greedy.shape[1]));
      EXPECT_EQ(summary->finish_reason(), v1::FINISH_REASON_LENGTH);
    }
    WaitIdle(*cluster);
    EXPECT_TRUE(cluster->failure().ok()) << cluster->failure();
  }
}

TEST_F(ClusterTest, AHundredClientsKilledInMidStreamLeaveEveryBlockFree) {
  const std::optional<std::string> model = TestModelPath();
  if (!model) GTEST_SKIP() << "SmolLM2 is not here: deploy/fetch-model fetches it";
  std::unique_ptr<LocalCluster> cluster =
      StartCluster("1xP:tp2,1xD:tp2", std::filesystem::absolute(*model), {"--threads", "1"});
  ASSERT_NE(cluster, nullptr);
  int in_mid_stream = 0;
  for (int i = 0; i < 100; ++i) {
    ClientProcess client({"generate", "--address", cluster->router_address(), "--prompt",
                          "Once upon a time", "--max-tokens", "2000", "--ignore-eos"});
    in_mid_stream += client.WaitForOutput(1 + i % 7) ? 1 : 0;
    client.Kill();
    EXPECT_TRUE(WIFSIGNALED(client.WaitForEnd()));
  }
  EXPECT_EQ(in_mid_stream, 100);
  WaitIdle(*cluster);
  // And it serves on.
  ClientProcess last({"generate", "--address", cluster->router_address(), "--prompt",
                      "Once upon a time", "--max-tokens", "3"});
  EXPECT_TRUE(last.WaitForOutput(1));
  EXPECT_EQ(last.WaitForEnd(), 0);
  WaitIdle(*cluster);
}

TEST_F(ClusterTest, ADeadlineFreesTheBlocksOnBothNodes) {
  const std::optional<std::string> model = TestModelPath();
  if (!model) GTEST_SKIP() << "SmolLM2 is not here: deploy/fetch-model fetches it";
  std::unique_ptr<LocalCluster> cluster =
      StartCluster("1xP:tp1,1xD:tp1", std::filesystem::absolute(*model), {"--threads", "1"});
  ASSERT_NE(cluster, nullptr);
  absl::StatusOr<std::unique_ptr<Client>> client = ConnectTo(*cluster);
  ASSERT_TRUE(client.ok()) << client.status();
  for (double seconds : {0.001, 0.02, 0.1, 0.5}) {
    v1::GenerateRequest request;
    for (int i = 0; i < 300; ++i) request.mutable_prompt()->mutable_token_ids()->add_ids(1000 + i);
    request.mutable_options()->set_max_tokens(4000);
    request.mutable_options()->set_ignore_eos(true);
    CallScope scope(CallScope::DeadlineAfter(seconds));
    absl::StatusOr<v1::GenerateSummary> summary =
        (*client)->Generate(scope, request, [](const v1::GenerateResponse&) { return true; });
    EXPECT_EQ(summary.status().code(), absl::StatusCode::kDeadlineExceeded) << summary.status();
  }
  WaitIdle(*cluster);
}

TEST_F(ClusterTest, ARankThatDiesMakesItsRequestsUnavailable) {
  for (const char* topology : {"1xM:tp2", "1xP:tp1,1xD:tp2"}) {
    SCOPED_TRACE(topology);
    std::unique_ptr<LocalCluster> cluster = StartCluster(topology, TinyModel(), {"--threads", "1"});
    ASSERT_NE(cluster, nullptr);
    absl::StatusOr<std::unique_ptr<Client>> client = ConnectTo(*cluster);
    ASSERT_TRUE(client.ok()) << client.status();
    const std::vector<pid_t> ranks = RankProcesses();
    ASSERT_EQ(ranks.size(), 1u);
    v1::GenerateRequest request;
    request.mutable_prompt()->mutable_token_ids()->add_ids(5);
    request.mutable_options()->set_max_tokens(500);
    request.mutable_options()->set_ignore_eos(true);
    CallScope scope(CallScope::DeadlineAfter(kCallSeconds));
    const absl::Status status = (*client)
                                    ->Generate(scope, request,
                                               [&](const v1::GenerateResponse& response) {
                                                 if (response.tokens_size() > 0) {
                                                   kill(ranks[0], SIGKILL);
                                                 }
                                                 return true;
                                               })
                                    .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("ranks stopped"));
  }
}

// Each process of a pair of nodes, killed while a request runs: it ends at once, as UNAVAILABLE
// where it needed that process, and the cluster, mended, serves again with the same answer.
TEST_F(ClusterTest, AProcessThatIsKilledIsStartedAgain) {
  std::unique_ptr<LocalCluster> cluster =
      StartCluster("1xP:tp2,1xD:tp2", TinyModel(), {"--threads", "1"});
  ASSERT_NE(cluster, nullptr);
  absl::StatusOr<std::unique_ptr<Client>> client = ConnectTo(*cluster);
  ASSERT_TRUE(client.ok()) << client.status();
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_token_ids()->add_ids(5);
  request.mutable_options()->set_max_tokens(400);
  request.mutable_options()->set_ignore_eos(true);
  const auto generate = [&](std::vector<int32_t>& tokens, const std::function<void()>& on_token) {
    tokens.clear();
    CallScope scope(CallScope::DeadlineAfter(kCallSeconds));
    return (*client)
        ->Generate(scope, request,
                   [&](const v1::GenerateResponse& response) {
                     for (const auto& token : response.tokens()) tokens.push_back(token.id());
                     on_token();
                     return true;
                   })
        .status();
  };
  std::vector<int32_t> expected, tokens;
  ASSERT_TRUE(generate(expected, [] {}).ok());
  for (const char* victim : {"prefill leader", "decode leader", "prefill rank", "decode rank"}) {
    SCOPED_TRACE(victim);
    const bool of_decode = std::string_view(victim).starts_with("decode");
    const pid_t leader = cluster->node_pid(of_decode ? 1 : 0);
    pid_t pid = leader;
    if (std::string_view(victim).ends_with("rank")) {
      for (const pid_t rank : RankProcesses()) {
        if (ParentOf(rank) == leader) pid = rank;
      }
      ASSERT_NE(pid, leader);
    }
    const absl::Status status = generate(tokens, [&] { kill(pid, SIGKILL); });
    // Whole, where it needed that process no more (a prompt that has been computed, an answer that
    // has been), or else UNAVAILABLE.
    if (status.ok()) {
      EXPECT_EQ(tokens, expected);
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    }
    pollfd failure{cluster->failure_fd(), POLLIN, 0};
    ASSERT_EQ(poll(&failure, 1, /*timeout=*/-1), 1);
    const absl::Status mended = cluster->Mend();
    ASSERT_TRUE(mended.ok()) << mended;
    // Until the router has seen it.
    absl::Status again;
    do {
      again = generate(tokens, [] {});
    } while (absl::IsUnavailable(again));
    EXPECT_TRUE(again.ok()) << again;
    EXPECT_EQ(tokens, expected);
  }
}

TEST_F(ClusterTest, NothingStaysWhenAClusterStops) {
  auto names = [](const char* folder) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      names.insert(entry.path().filename());
    return names;
  };
  const std::set<std::string> shm_before = names("/dev/shm");
  StartCluster("1xP:tp2,1xD:tp2", TinyModel(), {"--threads", "1"}).reset();
  std::set<std::string> left;
  const std::set<std::string> after = names("/dev/shm");
  std::set_difference(after.begin(), after.end(), shm_before.begin(), shm_before.end(),
                      std::inserter(left, left.end()));
  // Others on this machine make files there too; ours would carry our processes' names.
  std::erase_if(left, [](const std::string& name) {
    return name.find("ucx") == std::string::npos && name.find("headway") == std::string::npos;
  });
  EXPECT_THAT(left, ::testing::IsEmpty());
}

}  // namespace
}  // namespace headway
