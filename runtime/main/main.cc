// headway VERB [FLAGS]: finds the verb, parses its flags, carries it out. Exit status 0 when that
// went well, 1 with one line on standard error when not, 2 when the command line is wrong whatever
// the model or the other side.
#include <csignal>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/main/output.h"
#include "runtime/main/verb.h"

namespace headway {
namespace {

std::vector<Verb> AllVerbs() {
  return {GenerateVerb(), ChatVerb(),   ScoreVerb(), UpVerb(),     RouterVerb(),
          NodeVerb(),     VerifyVerb(), BenchVerb(), BudgetVerb(), RankVerb()};
}

std::string Overview(const std::vector<Verb>& verbs) {
  std::string text =
      "headway: a distributed inference runtime for transformers\n\n"
      "Usage: headway VERB [FLAGS]\n\n"
      "Verbs:\n";
  for (const Verb& verb : verbs) {
    std::string name = verb.about.verb;
    name.resize(10, ' ');
    absl::StrAppend(&text, "  ", name, verb.about.summary, "\n");
  }
  absl::StrAppend(
      &text,
      "\n\"headway VERB --help\" tells a verb's flags, their units and defaults, with an "
      "example.\n\nExit status: 0 done; 1 failed, and one line says why; 2 the command line is "
      "wrong.\n\nExample:\n  headway generate --model model.gguf --chat \"What is the "
      "capital of France?\"\n");
  return text;
}

// The exit status of what ended like this; 0 only when all that it printed has been written.
int Finish(const std::string& who, absl::Status status) {
  const absl::Status output = FinishOutput();
  // What nobody can read is also cancelled; why says more.
  if (status.ok() || (absl::IsCancelled(status) && !output.ok())) status = output;
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", who.c_str(), std::string(status.message()).c_str());
  return 1;
}

int Main(std::span<char* const> args) {
  // A client that has gone is told by the error of a write.
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<Verb> verbs = AllVerbs();
  const std::string name = args.size() > 1 ? args[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(Overview(verbs).c_str(), stdout);
    return Finish("headway", absl::OkStatus());
  }
  std::vector<std::string> names;
  for (const Verb& verb : verbs) {
    names.push_back(verb.about.verb);
    if (verb.about.verb != name) continue;
    Flags flags(verb.about);
    const VerbRunner run = verb.declare(flags);
    const std::string who = absl::StrCat("headway ", name);
    std::string text;
    switch (flags.Parse(args.subspan(2), &text)) {
      case Flags::Outcome::kHelp:
        std::fputs(text.c_str(), stdout);
        return Finish(who, absl::OkStatus());
      case Flags::Outcome::kUsage:
        std::fprintf(stderr, "%s\n", text.c_str());
        return 2;
      case Flags::Outcome::kRun:
        break;
    }
    return Finish(who, run());
  }
  if (name.empty()) {
    std::fputs(Overview(verbs).c_str(), stderr);
    return 2;
  }
  const std::string closest = ClosestWord(name, names);
  std::fprintf(stderr, "headway: no verb \"%s\"%s; see headway --help\n", name.c_str(),
               closest.empty() ? "" : absl::StrCat(", did you mean ", closest, "?").c_str());
  return 2;
}

}  // namespace
}  // namespace headway

int main(int argc, char** argv) { return headway::Main({argv, static_cast<size_t>(argc)}); }
