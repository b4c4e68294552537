#ifndef HEADWAY_RUNTIME_NODE_RANK_COMMAND_H_
#define HEADWAY_RUNTIME_NODE_RANK_COMMAND_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/model/forward.h"
#include "runtime/tensor/reduction_tree.h"
#include "runtime/transfer/kv_receiver.h"
#include "runtime/transfer/kv_sender.h"

namespace headway {

// A span of a step, and what of it is to be pushed to a decode node.
struct CommandSpan {
  std::vector<int32_t> tokens;
  int32_t first_position = 0;
  std::vector<int32_t> block_table;
  BatchSpan::Logits logits = BatchSpan::Logits::kLast;
  // After each layer, blocks [push_begin, push_end) of the sequence are final and go to this
  // reservation; 0: none.
  uint64_t push_to = 0;
  int32_t push_begin = 0;
  int32_t push_end = 0;
};

// The start of a push: the same on every rank; each derives its own routes from the degrees.
struct BeginSend {
  uint64_t reservation_id = 0;
  uint64_t epoch = 0;
  int32_t target_degree = 0;
  std::vector<std::string> peer_addresses;
  std::vector<int32_t> block_table;
  int32_t first_block = 0;
  int64_t lease_nanos = 0;  // from now on
};

// What the leader tells every rank to do, in this order: transfers opened and closed, one batch
// computed, transfers looked at. Ranks execute commands in the order given, so a reservation that
// is closed in one command is fenced on every rank before a later command uses its blocks.
struct RankCommand {
  bool stop = false;
  std::vector<ReceiveTask> opens;
  std::vector<uint64_t> closes;
  std::vector<BeginSend> begin_sends;
  std::vector<uint64_t> end_sends;
  std::vector<CommandSpan> spans;
  std::vector<uint64_t> poll_receives;
  std::vector<uint64_t> poll_sends;

  bool empty() const;
};

// A command as bytes. Both ends are the same binary on one host, so the form is not versioned;
// Decode still refuses what is cut short or inconsistent.
void EncodeCommand(const RankCommand& command, std::vector<std::byte>& out);
absl::StatusOr<RankCommand> DecodeCommand(std::span<const std::byte> bytes);

// What a rank reports of one polled transfer; plain memory, gathered at the leader.
struct ReceiveReport {
  RankManifest received;
  int64_t bytes = 0;
  int64_t refused = 0;
  int32_t code = 0;  // absl::StatusCode
  char message[204] = {};
};
struct SendReport {
  int64_t done = 0;
  int64_t bytes = 0;
  int32_t code = 0;
  char message[204] = {};
  RankManifest parts[kMaxReductionGroups];
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_NODE_RANK_COMMAND_H_
