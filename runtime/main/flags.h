#ifndef HEADWAY_RUNTIME_MAIN_FLAGS_H_
#define HEADWAY_RUNTIME_MAIN_FLAGS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace headway {

// What --help says of one flag. The range and the default are printed behind it by themselves; the
// default is the value that the variable has when the flag is added, or `default_text` where that
// says more.
struct FlagHelp {
  std::string value;  // stands for the value: "N", "HOST:PORT"; empty for a switch
  std::string help;   // what it does, with its unit; wrapped as needed
  std::string default_text = "";
};

// The flags of one verb: declared once, parsed, and explained by --help. A flag is "--name value"
// or
// "--name=value", all of it UTF-8. A mistake names flag, value and limit. Variables must outlive
// Parse.
class Flags {
 public:
  struct About {
    std::string verb;         // "generate"
    std::string summary;      // one line
    std::string description;  // paragraphs for a stranger; wrapped
    std::string example;      // command lines, as they stand
  };
  explicit Flags(About about);
  ~Flags();

  // Flags added from here on stand under this heading in --help.
  void Section(const std::string& title);

  void Switch(const std::string& name, bool* value, const std::string& help);
  void Add(const std::string& name, std::string* value, FlagHelp help);
  // May be given several times, one value each.
  void AddRepeated(const std::string& name, std::vector<std::string>* values, FlagHelp help);
  // Integers and numbers in [low, high].
  void Add(const std::string& name, int* value, int low, int high, FlagHelp help);
  void Add(const std::string& name, std::optional<int>* value, int low, int high, FlagHelp help);
  void Add(const std::string& name, std::optional<uint64_t>* value, FlagHelp help);
  void Add(const std::string& name, float* value, float low, float high, FlagHelp help);
  // Comma-separated: "1,2,3".
  void AddList(const std::string& name, std::vector<int>* values, int low, int high, FlagHelp help);
  // HOST:PORT; a port below `lowest_port` (0: let the system choose) is a mistake.
  void AddAddress(const std::string& name, std::string* value, int lowest_port, FlagHelp help);
  // HOST:PORT,HOST:PORT, each with a port from 1.
  void AddAddresses(const std::string& name, std::vector<std::string>* values, FlagHelp help);
  // Bytes, written "80GiB", "512MB" or a plain number.
  void AddBytes(const std::string& name, int64_t* value, FlagHelp help);
  // One of `choices`.
  void AddChoice(const std::string& name, std::string* value, std::vector<std::string> choices,
                 FlagHelp help);
  // The one argument without a name. May be absent unless `required`.
  void AddArgument(const std::string& name, std::string* value, bool required, FlagHelp help);

  // Called after a successful parse; a string is a mistake of usage, told like any other.
  void Check(std::function<std::optional<std::string>()> check);
  // Whether the flag was given, once parsed.
  bool Given(const std::string& name) const;

  // Parses what follows the verb. On kHelp the help, on kUsage one line with a hint, is in `text`.
  enum class Outcome { kRun, kHelp, kUsage };
  Outcome Parse(std::span<char* const> args, std::string* text);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The one of `words` that is closest to `word`, if it is close; else empty.
std::string ClosestWord(const std::string& word, std::span<const std::string> words);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_FLAGS_H_
