#ifndef HEADWAY_RUNTIME_CLUSTER_LAUNCHER_H_
#define HEADWAY_RUNTIME_CLUSTER_LAUNCHER_H_

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace headway {

// One process to start.
struct ChildSpec {
  std::string name;               // for messages: "decode-0"
  std::vector<std::string> args;  // after the program's name
  // Descriptors of this process that the child keeps, under the same numbers. All others but the
  // standard ones are closed there.
  std::vector<int> inherit_fds;
  // Whether "--ready-fd N" is added to `args`, so that WaitReady can wait for the child's line.
  bool reports_ready = true;
};

struct LauncherOptions {
  // What to execute. The default is this same binary.
  std::string program = "/proc/self/exe";
  // Whether what children write to standard output and error goes on to this process's standard
  // error, line by line. Else it is kept for error messages alone.
  bool forward_output = false;
  // From SIGTERM to SIGKILL: longer than a node lets running requests go on.
  absl::Duration grace = absl::Seconds(40);
  // Once readable (it is not read), nothing more is started or waited for: Start and WaitReady
  // return Cancelled. -1: never. Outlives the launcher.
  int stop_fd = -1;
};

// Starts child processes and stops them again.
//
// No child outlives this object, nor this process, however that ends: children get SIGKILL when
// their parent dies. Each is in its own session, so ctrl-C reaches this process alone, which then
// stops the children in its order. A child's standard input is empty.
//
// Thread-safe. One thread of its own starts, watches and reaps the children; no signal handler is
// installed, that thread takes no signals, and children of others are left alone.
class Launcher {
 public:
  static absl::StatusOr<std::unique_ptr<Launcher>> Create(LauncherOptions options);
  ~Launcher();  // as StopAll
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Starts a child and returns its index, counted from 0, without waiting for it to be ready.
  // Errors name the child and the program.
  absl::StatusOr<int> Start(ChildSpec spec);

  // Waits for the child's ready line and returns the address in it. Unavailable with the exit
  // status and the last words when this child, or another that was not asked to, ends first;
  // DeadlineExceeded after `timeout`; Cancelled where stop_fd says so.
  absl::StatusOr<std::string> WaitReady(int child, absl::Duration timeout);

  // Readable once a child has ended that was not asked to; then failure() tells which and why.
  // Belongs to this object.
  int failure_fd() const { return failure_event_; }
  // The first such end, as WaitReady words it; OK while there is none.
  absl::Status failure() const;
  // The children that have ended so, and the ends that nobody took before are forgotten: from then
  // on failure() and failure_fd() tell of later ones alone.
  struct Ended {
    int child = 0;
    absl::Status why;
  };
  std::vector<Ended> TakeFailures();

  // Sends SIGTERM to these children, SIGKILL after the grace period to those that are left, and
  // returns when all have ended. Children that have ended already are skipped.
  void Stop(std::span<const int> children);
  void StopAll();
  // Sends SIGKILL to all children and returns when all have ended. Nothing is started or waited for
  // after that, as where stop_fd says so.
  void KillAll();

  pid_t pid(int child) const;

 private:
  struct Child;
  struct Request;

  explicit Launcher(LauncherOptions options);
  std::vector<int> All() const;
  void End(std::span<const int> children, absl::Duration grace);
  void Loop();
  void ServeRequest();
  absl::Status Spawn(const ChildSpec& spec, Child* child);
  void OnReadyReadable(Child& child);
  void OnOutputReadable(Child& child);
  void OnExit(Child& child);
  void Wake();

  const LauncherOptions options_;
  int wake_event_ = -1;
  int failure_event_ = -1;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Child>> children_;  // guarded by mutex_; entries stay
  Request* request_ = nullptr;                    // guarded by mutex_; one at a time
  absl::Status failure_;                          // guarded by mutex_
  bool stop_asked_ = false;                       // guarded by mutex_; by stop_fd or KillAll
  bool closing_ = false;                          // guarded by mutex_
  std::thread thread_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_LAUNCHER_H_
