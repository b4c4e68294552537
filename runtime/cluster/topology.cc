#include "runtime/cluster/topology.h"

#include <charconv>
#include <optional>

#include "runtime/base/status.h"
#include "runtime/base/strings.h"

namespace headway {
namespace {

constexpr int kMaxCount = 1000;
constexpr int kMaxDegree = 1000;

// Takes a number of 1..limit from the front of `text`.
std::optional<int> TakeNumber(std::string_view& text, int limit) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 1 || value > limit) return std::nullopt;
  text.remove_prefix(end - text.data());
  return value;
}

bool Take(std::string_view& text, std::string_view word) {
  if (text.substr(0, word.size()) != word) return false;
  text.remove_prefix(word.size());
  return true;
}

std::optional<NodeRole> TakeRole(std::string_view& text) {
  if (Take(text, "P")) return NodeRole::kPrefill;
  if (Take(text, "D")) return NodeRole::kDecode;
  if (Take(text, "M")) return NodeRole::kMixed;
  return std::nullopt;
}

char RoleLetter(NodeRole role) {
  switch (role) {
    case NodeRole::kPrefill:
      return 'P';
    case NodeRole::kDecode:
      return 'D';
    case NodeRole::kMixed:
      return 'M';
  }
  return '?';
}

// The group that `part` writes, or what was expected instead.
std::optional<NodeGroup> ParseGroup(std::string_view part, std::string& expected) {
  NodeGroup group;
  if (auto count = TakeNumber(part, kMaxCount)) {
    group.count = *count;
  } else {
    expected = absl::StrCat("a number of nodes from 1 to ", kMaxCount);
    return std::nullopt;
  }
  if (!Take(part, "x")) {
    expected = "'x' after the number of nodes";
    return std::nullopt;
  }
  if (auto role = TakeRole(part)) {
    group.role = *role;
  } else {
    expected = "a role P, D or M after 'x'";
    return std::nullopt;
  }
  if (!Take(part, ":tp")) {
    expected = "':tp' after the role";
    return std::nullopt;
  }
  if (auto degree = TakeNumber(part, kMaxDegree)) {
    group.degree = *degree;
  } else {
    expected = absl::StrCat("a degree from 1 to ", kMaxDegree, " after ':tp'");
    return std::nullopt;
  }
  if (!part.empty()) {
    expected = "',' or the end after the degree";
    return std::nullopt;
  }
  return group;
}

}  // namespace

int Topology::Nodes(NodeRole role) const {
  int nodes = 0;
  for (const NodeGroup& group : groups) nodes += group.role == role ? group.count : 0;
  return nodes;
}

int Topology::Nodes() const {
  int nodes = 0;
  for (const NodeGroup& group : groups) nodes += group.count;
  return nodes;
}

int Topology::Ranks() const {
  int ranks = 0;
  for (const NodeGroup& group : groups) ranks += group.count * group.degree;
  return ranks;
}

std::string Topology::ToString() const {
  std::string line;
  for (const NodeGroup& group : groups) {
    absl::StrAppend(&line, line.empty() ? "" : ",", group.count, "x",
                    std::string(1, RoleLetter(group.role)), ":tp", group.degree);
  }
  return line;
}

absl::StatusOr<Topology> ParseTopology(std::string_view line) {
  const auto error = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("topology \"", ToAbsl(line), "\": ", why,
                                                   "; e.g. 1xP:tp2,1xD:tp1 or 1xM:tp1"));
  };
  Topology topology;
  std::string_view rest = line;
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    std::string expected;
    const std::optional<NodeGroup> group = ParseGroup(part, expected);
    if (!group) return error(absl::StrCat("expected ", expected, " in \"", ToAbsl(part), "\""));
    topology.groups.push_back(*group);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  const bool prefill = topology.Nodes(NodeRole::kPrefill) > 0;
  const bool decode = topology.Nodes(NodeRole::kDecode) > 0;
  if (prefill != decode) {
    return error(prefill ? "prefill nodes (P) need a decode node (D) to send to"
                         : "decode nodes (D) need a prefill node (P) to receive from");
  }
  return topology;
}

}  // namespace headway
