#ifndef HEADWAY_RUNTIME_NODE_SEQUENCE_TABLES_H_
#define HEADWAY_RUNTIME_NODE_SEQUENCE_TABLES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/node/rank_command.h"

namespace headway {

// The block tables of the sequences under way, as a rank knows them: one in each slot. The leader
// gives a slot to a sequence when it starts and to another when that has ended; it sends each block
// once. All memory is taken at the start.
class SequenceTables {
 public:
  // `longest`: blocks of one table.
  SequenceTables(int slots, int longest);

  // Of a decoded command. Internal naming slot, value and limit when a slot does not exist, more is
  // to be kept than is there, or a table would grow too long.
  absl::Status Apply(const RankCommand& command);

  // Valid until the next Apply. Internal when the slot does not exist.
  absl::StatusOr<std::span<const int32_t>> Table(int slot) const;

  int slots() const { return static_cast<int>(tables_.size()); }

 private:
  absl::Status CheckSlot(int slot) const;

  const int longest_;
  std::vector<std::vector<int32_t>> tables_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_NODE_SEQUENCE_TABLES_H_
