#include "runtime/comm/communicator_harness.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "runtime/base/check.h"
#include "runtime/comm/local_communicator.h"
#include "runtime/comm/shm_communicator.h"

namespace headway {
namespace {

// The program starts when all ranks have joined: how long that takes is not what is tested.
std::string RunShmRank(const ShmCommunicatorOptions& options, std::atomic<int>& joined,
                       const RankProgram& program) {
  const auto comm = NewShmCommunicator(options);
  ++joined;
  while (joined < options.size) std::this_thread::yield();
  return comm.ok() ? program(**comm) : comm.status().ToString();
}

std::vector<std::string> RunThreads(int size, const std::function<std::string(int)>& rank_main) {
  std::vector<std::string> answers(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { answers[rank] = rank_main(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  return answers;
}

std::string ReadAll(int fd) {
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) text.append(buffer, n);
  close(fd);
  return text;
}

std::vector<std::string> RunProcesses(int size, const std::function<std::string(int)>& rank_main) {
  std::vector<int> pipes(static_cast<size_t>(size));
  std::vector<pid_t> pids(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    int ends[2];
    HEADWAY_CHECK(pipe(ends) == 0);
    pids[rank] = fork();
    HEADWAY_CHECK(pids[rank] >= 0);
    if (pids[rank] == 0) {
      const std::string answer = rank_main(rank);
      const bool written =
          write(ends[1], answer.data(), answer.size()) == static_cast<ssize_t>(answer.size());
      _exit(written ? 0 : 1);  // the parent's exit handlers are not ours to run
    }
    close(ends[1]);
    pipes[rank] = ends[0];
  }
  // All answers before the first wait: a rank that dies stays a zombie until its peers have
  // noticed, as it would under a parent that is busy.
  std::vector<std::string> answers;
  for (int fd : pipes) answers.push_back(ReadAll(fd));
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    HEADWAY_CHECK(waitpid(pids[rank], &status, 0) == pids[rank]);
    if (WIFSIGNALED(status)) {
      answers[rank] = kKilled;
    } else if (WEXITSTATUS(status) != 0) {
      answers[rank] += " (exit status " + std::to_string(WEXITSTATUS(status)) + ")";
    }
  }
  return answers;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, RankForm form) {
  switch (form) {
    case RankForm::kLocalThreads:
      return out << "LocalThreads";
    case RankForm::kShmThreads:
      return out << "ShmThreads";
    case RankForm::kShmProcesses:
      return out << "ShmProcesses";
  }
  return out;
}

std::vector<std::string> RunRanks(RankForm form, int size, absl::Duration timeout,
                                  const RankProgram& program) {
  if (form == RankForm::kLocalThreads) {
    auto comms = NewLocalCommunicators(size, timeout);
    return RunThreads(size, [&](int rank) {
      const std::unique_ptr<Communicator> mine = std::move(comms[rank]);
      return program(*mine);
    });
  }
  const absl::StatusOr<int> fd = NewShmSegment(size);
  HEADWAY_CHECK(fd.ok());
  SharedPage page;
  const auto rank_main = [&](int rank) {
    return RunShmRank({.rank = rank, .size = size, .fd = *fd, .timeout = timeout},
                      page.As<std::atomic<int>>(), program);
  };
  const std::vector<std::string> answers =
      form == RankForm::kShmThreads ? RunThreads(size, rank_main) : RunProcesses(size, rank_main);
  close(*fd);
  return answers;
}

SharedPage::SharedPage()
    : address_(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
  HEADWAY_CHECK(address_ != MAP_FAILED);
}

SharedPage::~SharedPage() { munmap(address_, 4096); }

}  // namespace headway
