#include "runtime/main/prompt_flags.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace headway {

void AddPromptFlags(Flags& flags, v1::Prompt* prompt) {
  struct Typed {
    std::string text, chat, system;
    std::vector<int> ids;
  };
  const auto typed = std::make_shared<Typed>();
  flags.Section("The prompt, in one of three forms");
  flags.Add("--prompt", &typed->text,
            {.value = "TEXT", .help = "plain text, continued as it stands"});
  flags.AddList("--prompt-ids", &typed->ids, 0, std::numeric_limits<int>::max(),
                {.value = "ID,ID,...", .help = "token ids, taken as they are"});
  flags.Add("--chat", &typed->chat,
            {.value = "TEXT", .help = "a user's message, put into the checkpoint's chat template"});
  flags.Add("--system", &typed->system,
            {.value = "TEXT", .help = "with --chat: a system message before it"});
  flags.Check([&flags, typed, prompt]() -> std::optional<std::string> {
    const int forms = flags.Given("--prompt") + flags.Given("--prompt-ids") + flags.Given("--chat");
    if (forms != 1) return "give exactly one of --prompt, --prompt-ids and --chat";
    if (flags.Given("--system") && !flags.Given("--chat")) return "--system goes with --chat";
    if (flags.Given("--prompt")) prompt->set_text(typed->text);
    for (int id : typed->ids) prompt->mutable_token_ids()->add_ids(id);
    if (flags.Given("--system")) {
      v1::ChatMessage& message = *prompt->mutable_chat()->add_messages();
      message.set_role("system");
      message.set_content(typed->system);
    }
    if (flags.Given("--chat")) {
      v1::ChatMessage& message = *prompt->mutable_chat()->add_messages();
      message.set_role("user");
      message.set_content(typed->chat);
    }
    return std::nullopt;
  });
}

}  // namespace headway
