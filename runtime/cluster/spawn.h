#ifndef HEADWAY_RUNTIME_CLUSTER_SPAWN_H_
#define HEADWAY_RUNTIME_CLUSTER_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace headway {

// Owns a file descriptor; closes it when destroyed.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd();
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// A pipe, closed in processes that this one starts. Its read end does not block.
struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
  static absl::StatusOr<Pipe> Make();
};

struct SpawnOptions {
  std::string program;            // a path
  std::vector<std::string> args;  // after the program's name
  std::vector<int> keep_fds;      // stay open in the child under the same numbers
  int output_fd = -1;             // becomes its standard output and error; -1: this process's
};

// Starts a process and returns its id once the program runs. The child gets an empty standard
// input, its own session, default signal dispositions, none of this process's other descriptors,
// and SIGKILL when the calling *thread* ends: call from one that lives as long as the child should.
// NotFound or PermissionDenied naming the program when it cannot be executed.
//
// Between fork and exec the child calls only what is safe in a process with threads.
absl::StatusOr<pid_t> SpawnProcess(const SpawnOptions& options);

// A descriptor that becomes readable when the process ends, closed in processes that this one
// starts; -1 with errno when there is none. The caller owns it.
int OpenProcess(pid_t pid);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_SPAWN_H_
