#ifndef HEADWAY_RUNTIME_TEXT_CHAT_PRINTING_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_PRINTING_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/text/chat/value.h"

namespace headway::text::chat {

// Values as text, as Python writes them. Numbers from the request come out untrusted, the
// punctuation of lists and dicts trusted.

std::string FormatInt(Int value);
std::string FormatFloat(double value);  // repr: the shortest digits that come back

// str(value): what {{ value }} prints.
void AppendStr(const Value& value, TextBuilder* out);
// repr(value): as inside a printed list; texts are quoted.
void AppendRepr(const Value& value, TextBuilder* out);
absl::StatusOr<MarkedText> ToText(Runtime& runtime, const Value& value);

struct JsonFormat {
  int indent = -1;  // spaces a level; -1: all on one line
  bool ensure_ascii = false;
  bool sort_keys = false;
  MarkedText item_separator;
  MarkedText key_separator;
};
// json.dumps(value). InvalidArgument for what JSON cannot hold.
absl::Status AppendJson(Runtime& runtime, const Value& value, const JsonFormat& format,
                        TextBuilder* out);

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_PRINTING_H_
