#include "runtime/node/rank_command.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "runtime/base/status.h"

namespace headway {
namespace {

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  template <class T>
  void Number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    Raw(&value, sizeof(value));
  }
  template <class T>
  void Numbers(const std::vector<T>& values) {
    Number<uint64_t>(values.size());
    Raw(values.data(), values.size() * sizeof(T));
  }
  void String(const std::string& s) {
    Number<uint64_t>(s.size());
    Raw(s.data(), s.size());
  }
  template <class T, class F>
  void List(const std::vector<T>& items, F each) {
    Number<uint64_t>(items.size());
    for (const T& item : items) each(item);
  }

 private:
  void Raw(const void* data, size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), bytes, bytes + size);
  }
  std::vector<std::byte>& out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}

  template <class T>
  void Number(T& value) {
    Raw(&value, sizeof(value));
  }
  template <class T>
  void Numbers(std::vector<T>& values) {
    const uint64_t count = Count(sizeof(T));
    values.resize(count);
    Raw(values.data(), count * sizeof(T));
  }
  void String(std::string& s) {
    s.resize(Count(1));
    Raw(s.data(), s.size());
  }
  template <class T, class F>
  void List(std::vector<T>& items, F each) {
    items.resize(Count(1));
    for (T& item : items) each(item);
  }
  bool complete() const { return ok_ && in_.empty(); }

 private:
  // A count of things of at least `size` bytes each; more than the rest of the input holds is an
  // error.
  uint64_t Count(size_t size) {
    uint64_t count = 0;
    Number(count);
    if (count > in_.size() / size) {
      ok_ = false;
      return 0;
    }
    return count;
  }
  void Raw(void* data, size_t size) {
    if (!ok_ || size > in_.size()) {
      ok_ = false;
      return;
    }
    if (size != 0) std::memcpy(data, in_.data(), size);
    in_ = in_.subspan(size);
  }
  std::span<const std::byte> in_;
  bool ok_ = true;
};

// One description serves both directions, so they cannot drift apart.
template <class Archive, class Command>
void Transcode(Archive& a, Command& c) {
  auto flag = static_cast<uint8_t>(c.stop);
  a.Number(flag);
  if constexpr (!std::is_const_v<Command>) c.stop = flag != 0;
  a.List(c.opens, [&](auto& open) {
    a.Number(open.reservation_id);
    a.Number(open.epoch);
    a.Numbers(open.block_table);
    a.Number(open.first_block);
  });
  a.Numbers(c.closes);
  a.List(c.begin_sends, [&](auto& send) {
    a.Number(send.reservation_id);
    a.Number(send.epoch);
    a.Number(send.target_degree);
    a.List(send.peer_addresses, [&](auto& address) { a.String(address); });
    a.Numbers(send.block_table);
    a.Number(send.first_block);
    a.Number(send.lease_nanos);
  });
  a.Numbers(c.end_sends);
  a.List(c.tables, [&](auto& table) {
    a.Number(table.slot);
    a.Number(table.kept);
    a.Number(table.added);
  });
  a.Numbers(c.blocks);
  a.List(c.spans, [&](auto& span) {
    a.Number(span.slot);
    a.Number(span.count);
    a.Number(span.first_position);
    auto logits = static_cast<uint8_t>(span.logits);
    a.Number(logits);
    if constexpr (!std::is_const_v<Command>) span.logits = static_cast<BatchSpan::Logits>(logits);
    a.Number(span.push_to);
    a.Number(span.push_begin);
    a.Number(span.push_end);
  });
  a.Numbers(c.tokens);
  a.Numbers(c.poll_receives);
  a.Numbers(c.poll_sends);
}

// Whether the parts of a list that counts speak of, none below `least`, are the whole list.
template <class Item>
bool CountsCover(const std::vector<Item>& items, int32_t Item::*count, int32_t least,
                 size_t whole) {
  uint64_t sum = 0;
  for (const Item& item : items) {
    if (item.*count < least) return false;
    sum += static_cast<uint64_t>(item.*count);
  }
  return sum == whole;
}

}  // namespace

bool RankCommand::empty() const {
  return !stop && opens.empty() && closes.empty() && begin_sends.empty() && end_sends.empty() &&
         tables.empty() && spans.empty() && poll_receives.empty() && poll_sends.empty();
}

void RankCommand::Clear() {
  stop = false;
  opens.clear();
  closes.clear();
  begin_sends.clear();
  end_sends.clear();
  tables.clear();
  blocks.clear();
  spans.clear();
  tokens.clear();
  poll_receives.clear();
  poll_sends.clear();
}

RankCommand LargestStep(const CommandLimits& limits) {
  RankCommand command;
  command.closes.resize(limits.sequences);
  command.end_sends.resize(limits.sequences);
  command.tables.resize(limits.sequences);
  command.blocks.resize(limits.blocks);  // no block is in two tables
  command.spans.resize(std::min(limits.rows, limits.sequences));
  command.tokens.resize(limits.rows);
  command.poll_receives.resize(limits.sequences);
  command.poll_sends.resize(limits.sequences);
  return command;
}

void EncodeCommand(const RankCommand& command, std::vector<std::byte>& out) {
  Writer writer(out);
  Transcode(writer, command);
}

absl::Status DecodeCommand(std::span<const std::byte> bytes, RankCommand& command) {
  Reader reader(bytes);
  Transcode(reader, command);
  if (!reader.complete()) {
    return absl::InternalError(absl::StrCat("a rank command of ", bytes.size(),
                                            " bytes is cut short or has bytes left over"));
  }
  if (!CountsCover(command.tables, &TableUpdate::added, 0, command.blocks.size()) ||
      !CountsCover(command.spans, &CommandSpan::count, 1, command.tokens.size())) {
    return absl::InternalError(absl::StrCat("a rank command of ", command.tables.size(),
                                            " tables and ", command.spans.size(),
                                            " spans with other counts than ", command.blocks.size(),
                                            " blocks and ", command.tokens.size(), " tokens"));
  }
  return absl::OkStatus();
}

}  // namespace headway
