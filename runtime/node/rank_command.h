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

// What the ranks do not know yet of a sequence's block table: the first `kept` blocks of the table
// in `slot` stay, the next `added` of RankCommand::blocks follow. A new sequence keeps none.
struct TableUpdate {
  int32_t slot = 0;
  int32_t kept = 0;
  int32_t added = 0;
};

// A span of a step, and what of it is to be pushed to a decode node.
struct CommandSpan {
  int32_t slot = 0;   // whose block table
  int32_t count = 0;  // the next tokens of RankCommand::tokens
  int32_t first_position = 0;
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

// What a step can hold at most, so that a command's memory can be taken once.
struct CommandLimits {
  int rows = 0;       // tokens, and so spans
  int sequences = 0;  // slots of block tables
  int blocks = 0;     // of the cache; a sequence's table cannot be longer
};

// What the leader tells every rank to do, in this order: transfers opened and closed, one batch
// computed, transfers looked at. Ranks execute commands in the order given, so a reservation that
// is closed in one command is fenced on every rank before a later command uses its blocks.
//
// A command says what is new: a decoding sequence costs some 40 bytes a step, however long it is.
// The lists are emptied and filled again, step after step; only transfers that begin allocate.
struct RankCommand {
  bool stop = false;
  std::vector<ReceiveTask> opens;
  std::vector<uint64_t> closes;
  std::vector<BeginSend> begin_sends;
  std::vector<uint64_t> end_sends;
  std::vector<TableUpdate> tables;  // before the spans
  std::vector<int32_t> blocks;      // of `tables`, one after the other
  std::vector<CommandSpan> spans;
  std::vector<int32_t> tokens;  // of `spans`, one after the other
  std::vector<uint64_t> poll_receives;
  std::vector<uint64_t> poll_sends;

  bool empty() const;
  void Clear();
};

// A command with as many tables, spans, tokens and polls as the limits allow, all of them 0.
// Cleared it is one that no step makes grow.
RankCommand LargestStep(const CommandLimits& limits);

// A command as bytes, behind what `out` holds. Both ends are the same binary on one host, so the
// form is not versioned; Decode still refuses what is cut short or inconsistent (Internal).
void EncodeCommand(const RankCommand& command, std::vector<std::byte>& out);
absl::Status DecodeCommand(std::span<const std::byte> bytes, RankCommand& command);

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
