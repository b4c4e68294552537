#include "runtime/main/topology_flag.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace headway {

void AddTopologyFlag(Flags& flags, Topology* topology) {
  const auto typed = std::make_shared<std::string>("1xM:tp1");
  flags.Add(
      "--topology", typed.get(),
      {.value = "LINE",
       .help = "nodes to start, COUNTxROLE:tpRANKS with commas between; ROLE is P (prefill), D "
               "(decode) or M (mixed): 1xP:tp2,1xD:tp2"});
  flags.Check([=]() -> std::optional<std::string> {
    absl::StatusOr<Topology> parsed = ParseTopology(*typed);
    if (!parsed.ok()) return absl::StrCat("--topology: ", parsed.status().message());
    *topology = *std::move(parsed);
    return std::nullopt;
  });
}

}  // namespace headway
