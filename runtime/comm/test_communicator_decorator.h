#ifndef HEADWAY_RUNTIME_COMM_TEST_COMMUNICATOR_DECORATOR_H_
#define HEADWAY_RUNTIME_COMM_TEST_COMMUNICATOR_DECORATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "runtime/comm/communicator.h"

namespace headway {

// For tests: passes everything on to the communicator that it owns. A test overrides what it wants
// to count, hold up or spoil.
class CommunicatorDecorator : public Communicator {
 public:
  explicit CommunicatorDecorator(std::unique_ptr<Communicator> real) : real_(std::move(real)) {}
  int rank() const override { return real_->rank(); }
  int size() const override { return real_->size(); }
  absl::Status Barrier() override { return real_->Barrier(); }
  absl::Status Broadcast(int root, std::span<std::byte> bytes) override {
    return real_->Broadcast(root, bytes);
  }
  absl::Status Gather(int root, std::span<const std::byte> mine, std::span<const int64_t> sizes,
                      std::byte* all) override {
    return real_->Gather(root, mine, sizes, all);
  }
  absl::Status AllToAll(std::span<const std::byte> send, std::span<const int64_t> send_sizes,
                        std::byte* recv, std::span<const int64_t> recv_sizes) override {
    return real_->AllToAll(send, send_sizes, recv, recv_sizes);
  }
  void Abort(const std::string& reason) override { real_->Abort(reason); }

 private:
  const std::unique_ptr<Communicator> real_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_COMM_TEST_COMMUNICATOR_DECORATOR_H_
