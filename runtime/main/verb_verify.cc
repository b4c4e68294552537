#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/main/model_flags.h"
#include "runtime/main/node_flags.h"
#include "runtime/main/verb.h"
#include "runtime/main/verify_options.h"

namespace headway {
namespace {

VerbRunner Declare(Flags& flags) {
  const auto options = std::make_shared<VerifyMainOptions>();
  constexpr int kMax = std::numeric_limits<int>::max();
  flags.Section("Model and numerics");
  AddModelFlags(flags, /*model_required=*/true, &options->model);
  flags.Section("What to compare");
  flags.Add("--prompt-tokens", &options->prompt_tokens, 1, kMax,
            {.value = "N", .help = "length of the prompt, which is made up of token ids"});
  flags.Add("--max-tokens", &options->max_tokens, 1, kMax,
            {.value = "N", .help = "output tokens compared in each row"});
  flags.Add("--max-degree", &options->max_degree, 1, kMaxDegree,
            {.value = "N", .help = "rows at tensor-parallel degrees from 1 to this"});
  const auto axes = std::make_shared<std::string>();
  std::vector<std::string> names;
  for (const NamedVerifyAxis& axis : kVerifyAxes) names.emplace_back(axis.name);
  flags.Add("--axes", axes.get(),
            {.value = "NAME,NAME,...",
             .help = absl::StrCat("what rows vary: ", absl::StrJoin(names, ", ")),
             .default_text = "all"});
  flags.Switch("--full", &options->full,
               "the product of the axes inside one process in place of one axis at a time; takes "
               "many minutes");
  flags.Check([=]() -> std::optional<std::string> {
    if (axes->empty()) return std::nullopt;
    options->axes.clear();
    for (const std::string& name : std::vector<std::string>(absl::StrSplit(*axes, ','))) {
      const auto at = std::find(names.begin(), names.end(), name);
      if (at == names.end()) {
        return absl::StrCat("--axes: \"", name, "\" is none of ", absl::StrJoin(names, ", "));
      }
      options->axes.push_back(kVerifyAxes[at - names.begin()].axis);
    }
    return std::nullopt;
  });
  const auto seed = std::make_shared<std::optional<uint64_t>>();
  flags.Add(
      "--seed", seed.get(),
      {.value = "N", .help = "of the random draws", .default_text = std::to_string(options->seed)});
  flags.Section("Output");
  flags.Switch("--json", &options->json, "one object a row in place of the table");
  return [options, seed] {
    options->seed = seed->value_or(options->seed);
    return RunVerify(*options);
  };
}

}  // namespace

Verb VerifyVerb() {
  return {
      {.verb = "verify",
       .summary = "proves on this machine that every topology gives the same bits",
       .description =
           "Runs one prompt in many ways: without any cache, with it, in chunks of several sizes, "
           "alone and among others, on several degrees, threads, instruction sets and pairs of "
           "nodes. Compares the "
           "tokens and the bits of all logits, counts the K/V projections, and prints a table, one "
           "row a way. Exit status 1 when a row differs; it then names the first such row, "
           "position "
           "and layer.",
       .example = "headway verify --model model.gguf\n"
                  "  headway verify --model model.gguf --axes kernels,degrees --full"},
      &Declare};
}

}  // namespace headway
