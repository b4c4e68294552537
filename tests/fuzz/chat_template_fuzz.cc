// A chat template and a conversation. The input: the template, NUL, a JSON object with `messages`,
// `tools`, `documents`, `variables` and `add_generation_prompt`, any of which may be missing.
#include <nlohmann/json.hpp>

#include "runtime/base/check.h"
#include "runtime/base/json.h"
#include "runtime/base/utf8.h"
#include "runtime/text/chat/chat_template.h"
#include "tests/fuzz/fuzz_input.h"

namespace headway::fuzz {
namespace {

using Json = nlohmann::ordered_json;

// A character for private use. Seeds hold it in their conversations: where no template can have
// written it, it stands in no trusted text.
constexpr std::string_view kMark = "\xee\x80\x80";

// Enough to get anywhere, and soon over.
constexpr text::chat::Limits kLimits = {
    .steps = 20'000, .output_bytes = 1 << 16, .memory_bytes = 4 << 20};

const Json* Find(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it == object.end() ? nullptr : &*it;
}

void Render(std::string_view source, std::string_view text) {
  const auto chat_template =
      text::ChatTemplate::Parse(source, {.bos = "<s>", .eos = "</s>"}, kLimits);
  if (!chat_template.ok()) return CheckError(chat_template.status());

  // The strict parser is what bounds the depth of JSON that comes from outside.
  if (!ParseJson(text).ok()) return;
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  text::Conversation conversation = {.messages = Find(json, "messages"),
                                     .tools = Find(json, "tools"),
                                     .documents = Find(json, "documents"),
                                     .variables = Find(json, "variables")};
  if (const Json* prompt = Find(json, "add_generation_prompt"); prompt && prompt->is_boolean()) {
    conversation.add_generation_prompt = prompt->get<bool>();
  }
  const std::time_t noon = 1'772'712'000;
  gmtime_r(&noon, &conversation.now);

  const auto pieces = (*chat_template)->Render(conversation);
  if (!pieces.ok()) return CheckError(pieces.status());
  const bool may_write_mark =
      source.find(kMark) != source.npos || source.find('\\') != source.npos;  // an escape
  size_t bytes = 0;
  for (const text::TextPiece& piece : *pieces) {
    bytes += piece.text.size();
    HEADWAY_CHECK(IsUtf8(piece.text));
    if (piece.is_trusted && !may_write_mark) {
      HEADWAY_CHECK(piece.text.find(kMark) == piece.text.npos);
    }
  }
  HEADWAY_CHECK(bytes <= kLimits.output_bytes);
}

}  // namespace
}  // namespace headway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parts = headway::fuzz::Parts(data, size, 2);
  headway::fuzz::Render(parts[0], parts[1]);
  return 0;
}
