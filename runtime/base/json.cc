#include "runtime/base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/utf8.h"

namespace headway {
namespace {

using nlohmann::json;

// Builds the value from the parser's events. The parser's own builder keeps the last of two equal
// names and any depth; neither does for files of unknown origin.
class Builder : public nlohmann::json_sax<json> {
 public:
  explicit Builder(std::string_view text) : text_(text) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(int64_t value) override { return Add(value); }
  bool number_unsigned(uint64_t value) override { return Add(value); }
  bool number_float(double value, const std::string&) override { return Add(value); }
  bool string(std::string& value) override { return Add(std::move(value)); }
  bool binary(json::binary_t&) override { return Fail("binary value"); }
  bool start_object(size_t) override { return Open(json::object()); }
  bool start_array(size_t) override { return Open(json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(std::string& name) override {
    if (open_.back()->contains(name)) {
      return Fail(absl::StrCat("the name ", Quoted(name), " stands twice in one object"));
    }
    name_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    std::string_view why = error.what();
    // The library's text begins with its own error number in brackets, and may quote what it read
    // last: at any length, and ending in half a character.
    if (const size_t bracket = why.find("] "); bracket != why.npos) why.remove_prefix(bracket + 2);
    why = why.substr(0, std::min(why.find("; last read: "), kShownError));
    std::string_view read = text_.substr(0, position);
    if (read.size() > kShownInput) read.remove_prefix(read.size() - kShownInput);
    while (!read.empty() && (read[0] & 0xc0) == 0x80) read.remove_prefix(1);  // of a cut character
    return Fail(
        absl::StrCat("at byte ", position, ": ", std::string(why), ", after ", Quoted(read)));
  }

  json TakeRoot() { return std::move(root_); }
  const std::string& error() const { return error_; }

 private:
  json* Place(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_object()) return &(parent[name_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  bool Add(json value) {
    Place(std::move(value));
    return true;
  }

  bool Open(json value) {
    if (open_.size() == kMaxJsonDepth) {
      return Fail(absl::StrCat("nested more than ", kMaxJsonDepth, " levels deep"));
    }
    open_.push_back(Place(std::move(value)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  static constexpr size_t kShownError = 200;
  static constexpr size_t kShownInput = 30;

  const std::string_view text_;
  json root_;
  std::vector<json*> open_;  // from the root to the innermost object or array not yet closed
  std::string name_;         // of the next value in the innermost object
  std::string error_;
};

}  // namespace

absl::StatusOr<json> ParseJson(std::string_view text) {
  Builder builder(text);
  if (!json::sax_parse(text, &builder)) {
    return absl::InvalidArgumentError(absl::StrCat("not valid JSON: ", builder.error()));
  }
  return builder.TakeRoot();
}

}  // namespace headway
