#ifndef HEADWAY_RUNTIME_TRANSFER_UCX_LANE_H_
#define HEADWAY_RUNTIME_TRANSFER_UCX_LANE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/transfer/ucx_library.h"
#include "runtime/transfer/ucx_worker.h"

namespace headway {

// A lane carries messages from one transport to one other on the same host through UCX's shared
// memory. A writer of that memory takes a place in the reader's queue, fills it and marks it full;
// killed in between, it blocks the queue for ever. So each lane has a queue, and a UCX worker at
// either end, of its own: whatever one process does to its lane, destroying the lane mends.
//
// The writer gives fragments that fit into a place of the queue, and only while there is room, so
// UCX never holds anything of it, and the reader never needs to find, map or answer the writer: it
// may be dead by the time its fragments are read.

// The end that receives. Thread-compatible.
class UcxLaneReader {
 public:
  // Called in Progress with a whole message, its prefix included, valid during the call only.
  using Deliver = std::function<void(std::span<const std::byte> message)>;

  // `transport` is UCX's name of a shared memory transport. Unavailable where it does not work.
  static absl::StatusOr<std::unique_ptr<UcxLaneReader>> Create(const UcxLibrary& ucx,
                                                               const std::string& transport,
                                                               Deliver deliver);

  // By which the writer finds this.
  const std::string& address() const { return address_; }
  // Takes what has arrived, bounded; whether that was anything.
  bool Progress();
  // Takes all that a writer which writes no more has left.
  void Drain();
  // True when event_fd() becomes readable once something arrives; false while something is there.
  bool Arm();
  int event_fd() const { return worker_->event_fd(); }
  // What arrived were no messages; nothing is delivered any more.
  bool broken() const { return broken_; }

 private:
  UcxLaneReader(const UcxLibrary& ucx, Deliver deliver) : ucx_(ucx), deliver_(std::move(deliver)) {}
  static ucs_status_t OnFragment(void* arg, const void* header, size_t header_length, void* data,
                                 size_t length, const ucp_am_recv_param_t* param);
  void Take(std::span<const std::byte> fragment);

  const UcxLibrary& ucx_;
  const Deliver deliver_;
  std::unique_ptr<UcxWorker> worker_;
  std::string address_;
  std::unique_ptr<std::byte[]> message_;  // that is being put together
  size_t capacity_ = 0;
  size_t bytes_ = 0;  // of the message; 0 between messages
  size_t have_ = 0;
  bool broken_ = false;
};

// The end that sends. Thread-compatible.
class UcxLaneWriter {
 public:
  // Unavailable when no lane comes about: the reader is gone or not of this host, its memory may
  // not be opened, or UCX's settings leave no fragment of the size that is needed.
  static absl::StatusOr<std::unique_ptr<UcxLaneWriter>> Create(const UcxLibrary& ucx,
                                                               const std::string& transport,
                                                               const std::string& reader_address);

  // Gives the reader what there is room for of `message` from `written` on, which it advances. The
  // bytes are copied. An error when the lane is of no more use.
  absl::Status Write(std::span<const std::byte> message, size_t& written);

 private:
  explicit UcxLaneWriter(const UcxLibrary& ucx) : ucx_(ucx) {}

  const UcxLibrary& ucx_;
  std::unique_ptr<UcxWorker> worker_;
  ucp_ep_h endpoint_ = nullptr;  // of the worker, which destroys it
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_UCX_LANE_H_
