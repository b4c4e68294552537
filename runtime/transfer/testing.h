#ifndef HEADWAY_RUNTIME_TRANSFER_TESTING_H_
#define HEADWAY_RUNTIME_TRANSFER_TESTING_H_

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/kv_layer_view.h"
#include "kernels/kv_pool.h"
#include "runtime/model/shard_plan.h"
#include "runtime/transfer/transport.h"

namespace headway {

// The KV cache of one rank for tests.
class TestCache {
 public:
  TestCache(int layers, int kv_heads, int head_dim, int num_blocks, DType dtype = DType::kF16) {
    const kernels::KvLayerView layer = {
        .dtype = dtype, .head_dim = head_dim, .kv_heads = kv_heads, .num_blocks = num_blocks};
    memory_.resize(kernels::KvPoolBytes(layer, layers));
    views_ = kernels::KvPoolViews(layer, layers, memory_.data());
  }
  std::span<const kernels::KvLayerView> layers() const { return views_; }
  std::vector<std::byte>& memory() { return memory_; }
  std::span<std::byte> Run(int layer, int head, int block) const {
    return {views_[layer].Run(head, block), static_cast<size_t>(views_[layer].RunBytes())};
  }

 private:
  std::vector<std::byte> memory_;
  std::vector<kernels::KvLayerView> views_;
};

// Bytes that belong to one (layer, global head, block index) of one sequence and to no other.
inline std::vector<std::byte> RunPattern(size_t size, int layer, int kv_head, int block_index,
                                         int sequence = 0) {
  std::mt19937_64 random((static_cast<uint64_t>(sequence) << 48) ^
                         (static_cast<uint64_t>(layer) << 32) ^
                         (static_cast<uint64_t>(kv_head) << 20) ^ block_index);
  std::vector<std::byte> bytes(size);
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return bytes;
}

// Whether `condition` comes true within a time that only a hang exceeds.
inline bool Eventually(const std::function<bool()>& condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));  // leaves the core to the others
  }
  return true;
}

// A transport that shows each message to `tamper`, which may change it, before it goes on: false
// drops it and reports success.
class TamperingTransport : public Transport {
 public:
  using Tamper =
      std::function<bool(std::vector<std::byte>& header, std::vector<std::byte>& payload)>;
  TamperingTransport(std::unique_ptr<Transport> inner, Tamper tamper)
      : inner_(std::move(inner)), tamper_(std::move(tamper)) {}
  std::string address() const override { return inner_->address(); }
  void SetReceiver(Receiver receiver) override { inner_->SetReceiver(std::move(receiver)); }
  void SendPieces(const std::string& peer_address, std::span<const std::byte> header,
                  std::span<const std::span<const std::byte>> pieces, Done done) override {
    std::vector<std::byte> changed_header(header.begin(), header.end()), payload;
    for (auto piece : pieces) payload.insert(payload.end(), piece.begin(), piece.end());
    if (!tamper_(changed_header, payload)) {
      done(absl::OkStatus());
      return;
    }
    inner_->Send(peer_address, changed_header, payload, std::move(done));
  }

 private:
  std::unique_ptr<Transport> inner_;
  Tamper tamper_;
};

inline ModelConfig TestModel(int query_heads, int kv_heads, int layers) {
  ModelConfig config;
  config.layers = layers;
  config.hidden = query_heads * 8;
  config.query_heads = query_heads;
  config.kv_heads = kv_heads;
  config.head_dim = 8;
  config.intermediate = 512;
  config.vocabulary = 320;
  return config;
}

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_TESTING_H_
