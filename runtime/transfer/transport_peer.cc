// The other process of ucx_process_test: a transport that sends every message back to the address
// in its header, or, given an address, floods that one. Prints its own address in hexadecimal and
// runs until its input ends.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "runtime/transfer/ucx_transport.h"

namespace headway {
namespace {

int Run(const std::string& host_transport, const std::string& flooded) {
  auto created = UcxTransport::Create({.host_transport = host_transport, .net_devices = "lo"});
  if (!created.ok()) {
    std::fprintf(stderr, "%s\n", created.status().ToString().c_str());
    return 1;
  }
  Transport& transport = **created;
  transport.SetReceiver([&](std::span<const std::byte> header, std::span<const std::byte> payload) {
    const std::string back_to(reinterpret_cast<const char*>(header.data()), header.size());
    transport.Send(back_to, {}, payload, [](const absl::Status&) {});
  });
  std::printf("%s\n", absl::BytesToHexString(transport.address()).c_str());
  std::fflush(stdout);
  std::atomic<bool> stop = false;
  std::thread flood([&] {
    const std::vector<std::byte> payload(300'000, std::byte{1});
    std::atomic<int> pending = 0;
    while (!flooded.empty() && !stop) {
      if (pending > 20) {
        std::this_thread::yield();
        continue;
      }
      ++pending;
      transport.Send(flooded, {payload.data(), 1}, payload,
                     [&](const absl::Status&) { --pending; });
    }
    while (pending > 0) std::this_thread::yield();
  });
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  stop = true;
  flood.join();
  transport.SetReceiver({});
  return 0;
}

}  // namespace
}  // namespace headway

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return headway::Run(argv[1], argc > 2 ? absl::HexStringToBytes(argv[2]) : "");
}
