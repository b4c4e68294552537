// How fast KV moves between two ranks of one host, beside memcpy in the same run: messages of
// several sizes over each way of UCX, and the whole path from one cache to the other (digests, the
// copy into a message, the transport, the check, the copy into the cache).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "kernels/kv_pool.h"
#include "runtime/base/clock.h"
#include "runtime/transfer/kv_receiver.h"
#include "runtime/transfer/kv_sender.h"
#include "runtime/transfer/ucx_transport.h"

namespace headway {
namespace {

constexpr double kSecondsEach = 0.5;

double Now() { return Clock::Real().NowSeconds(); }

// GB/s of copying 256 KiB pieces between buffers that no cache holds.
double MemcpyRate() {
  constexpr size_t kBytes = 256 << 20, kPiece = 256 << 10;
  std::vector<std::byte> from(kBytes, std::byte{1}), to(kBytes, std::byte{2});
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    const double start = Now();
    for (size_t at = 0; at < kBytes; at += kPiece) {
      std::memcpy(to.data() + at, from.data() + at, kPiece);
    }
    best = std::max(best, kBytes / (Now() - start) / 1e9);
  }
  return best;
}

std::unique_ptr<Transport> NewTransport(const char* host_transport) {
  auto transport = UcxTransport::Create({.host_transport = host_transport, .net_devices = "lo"});
  if (!transport.ok()) {
    std::fprintf(stderr, "%s\n", transport.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(transport);
}

// Microseconds from Send to the receiver's call, one small message at a time.
double MessageMicros(const char* host_transport) {
  auto from = NewTransport(host_transport), to = NewTransport(host_transport);
  std::atomic<int> arrived = 0;
  to->SetReceiver([&](auto, auto) {
    ++arrived;
    arrived.notify_one();
  });
  const std::string address = to->address();
  std::vector<double> micros;
  for (int i = 0; i < 300; ++i) {
    const double start = Now();
    from->Send(address, {}, {}, [](const absl::Status&) {});
    arrived.wait(i);
    micros.push_back((Now() - start) * 1e6);
  }
  std::sort(micros.begin(), micros.end());
  return micros[micros.size() / 2];
}

double MessageRate(const char* host_transport, size_t bytes) {
  auto from = NewTransport(host_transport), to = NewTransport(host_transport);
  std::atomic<int64_t> arrived = 0;
  to->SetReceiver([&](auto, std::span<const std::byte> payload) { arrived += payload.size(); });
  const std::string address = to->address();
  const std::vector<std::byte> payload(bytes, std::byte{1});
  std::atomic<int64_t> pending = 0;
  const double start = Now();
  int64_t sent = 0;
  while (Now() - start < kSecondsEach) {
    while (pending > (8 << 20)) std::this_thread::sleep_for(std::chrono::microseconds(20));
    pending += bytes;
    sent += bytes;
    from->Send(address, {}, payload, [&](const absl::Status&) { pending -= bytes; });
  }
  while (arrived < sent) std::this_thread::yield();
  return sent / (Now() - start) / 1e9;
}

// One sequence of `blocks` blocks from cache to cache, in the shape of a model of 30 layers and 3
// KV heads of 64 in f16. Returns GB/s and sets the milliseconds that a transfer took.
double CacheRate(const char* host_transport, int blocks, double& millis) {
  constexpr int kLayers = 30;
  const kernels::KvLayerView layer = {
      .dtype = DType::kF16, .head_dim = 64, .kv_heads = 3, .num_blocks = 512};
  std::vector<std::byte> memory[2];
  std::vector<kernels::KvLayerView> caches[2];
  for (int side = 0; side < 2; ++side) {
    memory[side].resize(kernels::KvPoolBytes(layer, kLayers), std::byte{3});
    caches[side] = kernels::KvPoolViews(layer, kLayers, memory[side].data());
  }
  auto from = NewTransport(host_transport), to = NewTransport(host_transport);
  auto sender = KvSender::Create(*from, caches[0], Clock::Real());
  auto receiver = KvReceiver::Create(*to, caches[1]);
  std::vector<int32_t> table(blocks);
  for (int i = 0; i < blocks; ++i) table[i] = i;
  SendTask task = {
      .peer_addresses = {to->address()}, .block_table = table, .deadline_nanos = INT64_MAX};
  for (int head = 0; head < layer.kv_heads; ++head) {
    task.routes.push_back({.kv_head = head, .source_head = head, .target_head = head});
  }
  const int64_t runs = int64_t{kLayers} * layer.kv_heads * blocks;
  const double start = Now();
  int transfers = 0;
  while (Now() - start < kSecondsEach) {
    task.reservation_id = ++transfers;
    if (!receiver->Open({.reservation_id = task.reservation_id, .block_table = table}).ok() ||
        !sender->Begin(task).ok()) {
      std::exit(1);
    }
    for (int layer = 0; layer < kLayers; ++layer) {
      sender->OnLayerReady(task.reservation_id, layer, 0, blocks);
    }
    while (receiver->Poll(task.reservation_id).received.runs < runs) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    sender->End(task.reservation_id);
    receiver->Close(task.reservation_id);
  }
  const double seconds = Now() - start;
  millis = seconds / transfers * 1e3;
  return transfers * runs * layer.RunBytes() / seconds / 1e9;
}

int Main() {
  const double memcpy_rate = MemcpyRate();
  std::printf("memcpy %.1f GB/s\n\n%-10s %18s %12s %12s %12s %12s\n", memcpy_rate, "transports",
              "small message us", "64 KiB GB/s", "256 KiB", "1 MiB", "4 MiB");
  const char* const ways[] = {"", "posix"};
  auto name = [](const char* way) { return *way == '\0' ? "tcp" : way; };
  for (const char* way : ways) {
    std::printf("%-10s %18.1f", name(way), MessageMicros(way));
    for (size_t kib : {64, 256, 1024, 4096}) {
      const double rate = MessageRate(way, kib << 10);
      std::printf(" %5.2f (%3.0f%%)", rate, 100 * rate / memcpy_rate);
    }
    std::printf("\n");
  }
  std::printf("\nfrom cache to cache, 30 layers, 3 KV heads of 64, f16\n%-10s %14s %8s %10s\n",
              "transports", "tokens", "ms", "GB/s");
  for (const char* way : ways) {
    for (int blocks : {1, 7, 64, 256}) {
      double millis;
      const double rate = CacheRate(way, blocks, millis);
      std::printf("%-10s %14d %8.2f %10.2f (%3.0f%%)\n", name(way), blocks * 16, millis, rate,
                  100 * rate / memcpy_rate);
    }
  }
  return 0;
}

}  // namespace
}  // namespace headway

int main() { return headway::Main(); }
