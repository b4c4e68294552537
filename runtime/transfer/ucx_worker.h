#ifndef HEADWAY_RUNTIME_TRANSFER_UCX_WORKER_H_
#define HEADWAY_RUNTIME_TRANSFER_UCX_WORKER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/transfer/ucx_library.h"

namespace headway {

// Owns a UCX context with one worker that sends and receives active messages. Thread-compatible:
// any thread may use it, one at a time.
class UcxWorker {
 public:
  // Names without "UCX_", and values, of UCX's settings.
  using Settings = std::vector<std::pair<std::string, std::string>>;

  // Settings go before variables of the environment. Unavailable naming them when UCX refuses.
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Create(const UcxLibrary& ucx,
                                                           const Settings& settings);
  // All requests must have been given back.
  ~UcxWorker();

  ucp_worker_h handle() const { return worker_; }
  // Becomes readable when something arrives after ucp_worker_arm has said OK.
  int event_fd() const { return event_fd_; }
  // By which other workers reach this one.
  absl::StatusOr<std::string> Address() const;
  // Called with `arg` in ucp_worker_progress.
  absl::Status SetHandler(unsigned message_id, ucp_am_recv_callback_t handler, void* arg);

 private:
  explicit UcxWorker(const UcxLibrary& ucx) : ucx_(ucx) {}
  absl::Status Start(const Settings& settings);

  const UcxLibrary& ucx_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_UCX_WORKER_H_
