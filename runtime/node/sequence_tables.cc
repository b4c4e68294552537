#include "runtime/node/sequence_tables.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace headway {

SequenceTables::SequenceTables(int slots, int longest) : longest_(longest), tables_(slots) {
  for (std::vector<int32_t>& table : tables_) table.reserve(longest);
}

absl::Status SequenceTables::CheckSlot(int slot) const {
  if (slot >= 0 && slot < slots()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("block table in slot ", slot, "; there are ", slots(), " slots"));
}

absl::Status SequenceTables::Apply(const RankCommand& command) {
  std::span<const int32_t> blocks = command.blocks;
  for (const TableUpdate& update : command.tables) {
    HEADWAY_RETURN_IF_ERROR(CheckSlot(update.slot));
    std::vector<int32_t>& table = tables_[update.slot];
    const auto known = static_cast<int64_t>(table.size());
    if (update.kept < 0 || update.kept > known || int64_t{update.kept} + update.added > longest_) {
      return absl::InternalError(absl::StrCat("block table in slot ", update.slot, ": keep ",
                                              update.kept, " of ", known, " blocks and add ",
                                              update.added, "; the longest has ", longest_));
    }
    const std::span<const int32_t> added = blocks.first(update.added);
    blocks = blocks.subspan(update.added);
    table.resize(update.kept);
    table.insert(table.end(), added.begin(), added.end());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<const int32_t>> SequenceTables::Table(int slot) const {
  HEADWAY_RETURN_IF_ERROR(CheckSlot(slot));
  return std::span<const int32_t>(tables_[slot]);
}

}  // namespace headway
