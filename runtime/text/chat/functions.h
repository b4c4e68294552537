#ifndef HEADWAY_RUNTIME_TEXT_CHAT_FUNCTIONS_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_FUNCTIONS_H_

#include <ctime>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/text/chat/value.h"

namespace headway::text::chat {

// An object that templates may change: {% set ns.x = 1 %}.
class Namespace : public Object {
 public:
  std::string_view type_name() const override { return "namespace"; }
  std::optional<Value> Attribute(std::string_view name) override;
  // InvalidArgument for a name that begins with an underscore.
  absl::Status Set(Runtime& runtime, const std::string& name, Value value);

 private:
  std::map<std::string, Value, std::less<>> attributes_;
  Charge charge_;
};

// The functions that every template can call: range, dict, namespace, joiner, cycler,
// raise_exception (which fails with Aborted and the template's own words) and strftime_now, for
// which it is always `now`.
std::vector<std::pair<std::string, Value>> GlobalFunctions(const std::tm& now);

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_FUNCTIONS_H_
