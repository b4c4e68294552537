#include "runtime/text/chat/template.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/utf8.h"
#include "runtime/text/chat/evaluator.h"
#include "runtime/text/chat/functions.h"
#include "runtime/text/chat/parser.h"
#include "runtime/text/chat/value.h"

namespace headway::text::chat {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<Value> StringFromRequest(Runtime& runtime, const std::string& text) {
  if (FindInvalidUtf8(text)) {
    return absl::InvalidArgumentError("chat template: a text of the request is not UTF-8");
  }
  return runtime.MakeString(MarkedText(text, /*trusted=*/false));
}

absl::StatusOr<Value> ValueFromRequest(Runtime& runtime, const Json& json, int depth) {
  if (depth > runtime.limits().depth) {
    return absl::InvalidArgumentError(absl::StrCat("chat template: the request nests more than ",
                                                   runtime.limits().depth, " deep"));
  }
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>(), /*from_request=*/true);
    case Json::value_t::number_integer:
      return Value(static_cast<Int>(json.get<int64_t>()), /*from_request=*/true);
    case Json::value_t::number_unsigned:
      return Value(static_cast<Int>(json.get<uint64_t>()), /*from_request=*/true);
    case Json::value_t::number_float:
      return Value(json.get<double>(), /*from_request=*/true);
    case Json::value_t::string:
      return StringFromRequest(runtime, json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) {
        HEADWAY_ASSIGN_OR_RETURN(Value value, ValueFromRequest(runtime, item, depth + 1));
        items.push_back(std::move(value));
      }
      return runtime.MakeList(std::move(items));
    }
    case Json::value_t::object: {
      auto dict = std::make_shared<Dict>();
      for (const auto& [name, member] : json.items()) {
        HEADWAY_ASSIGN_OR_RETURN(Value key, StringFromRequest(runtime, name));
        HEADWAY_ASSIGN_OR_RETURN(Value value, ValueFromRequest(runtime, member, depth + 1));
        dict->Set(std::move(key), std::move(value));
      }
      return runtime.MakeDict(std::move(dict));
    }
    default:
      return Value(None());
  }
}

}  // namespace

absl::StatusOr<Template> Template::Parse(std::string_view source, const Limits& limits) {
  HEADWAY_ASSIGN_OR_RETURN(Body body, ParseTemplate(source, limits.depth));
  return Template(std::move(body), limits);
}

absl::StatusOr<std::vector<TextPiece>> Template::Render(const Variables& variables) const {
  Runtime runtime(limits_);
  Evaluator evaluator(runtime);
  for (auto& [name, function] : GlobalFunctions(variables.now)) {
    HEADWAY_RETURN_IF_ERROR(evaluator.SetGlobal(name, function));
  }
  if (variables.request != nullptr) {
    for (const auto& [name, json] : variables.request->items()) {
      HEADWAY_ASSIGN_OR_RETURN(Value value, ValueFromRequest(runtime, json, 0));
      HEADWAY_RETURN_IF_ERROR(evaluator.SetGlobal(name, std::move(value)));
    }
  }
  for (const auto& [name, text] : variables.trusted) {
    HEADWAY_ASSIGN_OR_RETURN(Value value, runtime.MakeString(MarkedText(text, /*trusted=*/true)));
    HEADWAY_RETURN_IF_ERROR(evaluator.SetGlobal(name, std::move(value)));
  }
  absl::StatusOr<MarkedText> text = evaluator.Run(body_);
  if (absl::IsAborted(text.status())) {  // raise_exception
    return absl::InvalidArgumentError(
        absl::StrCat("the chat template refuses the messages: ", text.status().message()));
  }
  HEADWAY_RETURN_IF_ERROR(text.status());
  return text->Pieces();
}

}  // namespace headway::text::chat
