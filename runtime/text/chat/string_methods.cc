#include "runtime/text/chat/string_methods.h"

#include <utf8proc.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/text/chat/arguments.h"
#include "runtime/text/chat/characters.h"
#include "runtime/text/chat/formatting.h"
#include "runtime/text/chat/operators.h"
#include "runtime/text/utf8.h"

namespace headway::text::chat {
namespace {

char32_t CharacterAt(std::string_view text, size_t offset) { return NextCodePoint(text, &offset); }

bool IsCased(char32_t c) { return IsUppercase(c) || IsLowercase(c); }

std::string UpperOf(char32_t c) {
  if (c == 0xdf) return "SS";  // sharp s
  std::string out;
  AppendUtf8(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), &out);
  return out;
}

std::string TitleOf(char32_t c) {
  if (c == 0xdf) return "Ss";
  std::string out;
  AppendUtf8(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))), &out);
  return out;
}

// Of the character of `text` at [begin, end): the form of sigma depends on its neighbours.
std::string LowerOf(std::string_view text, size_t begin, size_t end) {
  const char32_t c = CharacterAt(text, begin);
  std::string out;
  if (c == 0x130) {  // capital i with dot
    out = "i\xcc\x87";
  } else if (c == 0x3a3 && begin > 0 &&
             IsLetter(CharacterAt(text, PreviousCharacter(text, begin))) &&
             (end == text.size() || !IsLetter(CharacterAt(text, end)))) {
    out = "\xcf\x82";  // final sigma
  } else {
    AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), &out);
  }
  return out;
}

// Maps each character; `map` gets its offsets.
template <typename Map>
absl::StatusOr<Value> MapCharacters(Runtime& runtime, const MarkedText& text, Map map) {
  // Many small steps, so what is too long is refused before it takes time.
  HEADWAY_RETURN_IF_ERROR(runtime.budget().Step(16 * text.size()));
  TextBuilder builder(runtime);
  for (size_t i = 0; i < text.size();) {
    const size_t end = i + Utf8Length(text.bytes()[i]);
    builder.Append(map(i, end), text.trusted_at(i));
    i = end;
  }
  return builder.Finish();
}

const MarkedText& Self(const Value& self) { return *self.string(); }

// Pieces of a text between cuts, as a list.
class Pieces {
 public:
  Pieces(Runtime& runtime, const MarkedText& text) : runtime_(runtime), text_(text) {}
  absl::Status Add(size_t begin, size_t end) {
    HEADWAY_ASSIGN_OR_RETURN(Value piece, runtime_.MakeString(text_.Range(begin, end)));
    pieces_.push_back(std::move(piece));
    return absl::OkStatus();
  }
  void Reverse() { std::reverse(pieces_.begin(), pieces_.end()); }
  absl::StatusOr<Value> Finish(List::Kind kind = List::Kind::kList) {
    return runtime_.MakeList(std::move(pieces_), kind);
  }

 private:
  Runtime& runtime_;
  const MarkedText& text_;
  std::vector<Value> pieces_;
};

// Where the last `needle` that ends at or before `end` starts, or npos. Linear whatever the text
// holds: the algorithm of Knuth, Morris and Pratt, from the end.
absl::StatusOr<size_t> FindLast(Runtime& runtime, std::string_view text, std::string_view needle,
                                size_t end) {
  text = text.substr(0, end);
  if (needle.empty()) return text.size();
  if (needle.size() > text.size()) return std::string_view::npos;
  if (needle.size() * sizeof(size_t) > runtime.budget().free_bytes()) {
    return runtime.budget().OutOfMemory();
  }
  const auto at = [](std::string_view s, size_t i) { return s[s.size() - 1 - i]; };
  std::vector<size_t> border(needle.size(), 0);
  for (size_t i = 1, k = 0; i < needle.size(); ++i) {
    while (k > 0 && at(needle, i) != at(needle, k)) k = border[k - 1];
    if (at(needle, i) == at(needle, k)) ++k;
    border[i] = k;
  }
  for (size_t i = 0, k = 0; i < text.size(); ++i) {
    while (k > 0 && at(text, i) != at(needle, k)) k = border[k - 1];
    if (at(text, i) == at(needle, k)) ++k;
    if (k == needle.size()) return text.size() - 1 - i;
  }
  return std::string_view::npos;
}

size_t SkipSpace(std::string_view text, size_t i) {
  for (size_t next = i; next < text.size() && IsSpace(NextCodePoint(text, &next));) i = next;
  return i;
}

size_t SkipNonSpace(std::string_view text, size_t i) {
  for (size_t next = i; next < text.size() && !IsSpace(NextCodePoint(text, &next));) i = next;
  return i;
}

size_t SkipSpaceBackwards(std::string_view text, size_t end) {
  while (end > 0) {
    const size_t begin = PreviousCharacter(text, end);
    if (!IsSpace(CharacterAt(text, begin))) break;
    end = begin;
  }
  return end;
}

size_t SkipNonSpaceBackwards(std::string_view text, size_t end) {
  while (end > 0) {
    const size_t begin = PreviousCharacter(text, end);
    if (IsSpace(CharacterAt(text, begin))) break;
    end = begin;
  }
  return end;
}

absl::StatusOr<Value> SplitAtSpace(Runtime& runtime, const MarkedText& text, int64_t most,
                                   bool from_right) {
  const std::string_view bytes = text.bytes();
  Pieces pieces(runtime, text);
  if (!from_right) {
    for (size_t i = SkipSpace(bytes, 0); i < bytes.size(); i = SkipSpace(bytes, i)) {
      const size_t end = most-- == 0 ? bytes.size() : SkipNonSpace(bytes, i);
      HEADWAY_RETURN_IF_ERROR(pieces.Add(i, end));
      i = end;
    }
    return pieces.Finish();
  }
  for (size_t end = SkipSpaceBackwards(bytes, bytes.size()); end > 0;) {
    const size_t begin = most-- == 0 ? 0 : SkipNonSpaceBackwards(bytes, end);
    HEADWAY_RETURN_IF_ERROR(pieces.Add(begin, end));
    end = SkipSpaceBackwards(bytes, begin);
  }
  pieces.Reverse();
  return pieces.Finish();
}

absl::StatusOr<Value> SplitAt(Runtime& runtime, const MarkedText& text, std::string_view separator,
                              int64_t most, bool from_right) {
  if (separator.empty()) return TemplateError("empty separator");
  const std::string_view bytes = text.bytes();
  Pieces pieces(runtime, text);
  if (!from_right) {
    size_t begin = 0;
    for (; most != 0; --most) {
      const size_t found = FindBytes(bytes, separator, begin);
      if (found == std::string_view::npos) break;
      HEADWAY_RETURN_IF_ERROR(pieces.Add(begin, found));
      begin = found + separator.size();
    }
    HEADWAY_RETURN_IF_ERROR(pieces.Add(begin, bytes.size()));
    return pieces.Finish();
  }
  size_t end = bytes.size();
  for (; most != 0; --most) {
    HEADWAY_ASSIGN_OR_RETURN(const size_t found, FindLast(runtime, bytes, separator, end));
    if (found == std::string_view::npos) break;
    HEADWAY_RETURN_IF_ERROR(pieces.Add(found + separator.size(), end));
    end = found;
  }
  HEADWAY_RETURN_IF_ERROR(pieces.Add(0, end));
  pieces.Reverse();
  return pieces.Finish();
}

absl::StatusOr<Value> SplitMethod(Runtime& runtime, const Value& self, const Arguments& arguments,
                                  bool from_right) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("split", arguments, {"sep", "maxsplit"}));
  HEADWAY_ASSIGN_OR_RETURN(const int64_t most, bound.IntOr(1, -1));
  HEADWAY_RETURN_IF_ERROR(runtime.budget().Step(Self(self).size()));
  if (!bound.has(0)) return SplitAtSpace(runtime, Self(self), most, from_right);
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* separator, bound.TextOr(0));
  return SplitAt(runtime, Self(self), separator->bytes(), most, from_right);
}

absl::StatusOr<Value> SplitLines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("splitlines", arguments, {"keepends"}));
  const bool keep = bound.TruthOr(0, false);
  const std::string_view bytes = Self(self).bytes();
  Pieces pieces(runtime, Self(self));
  size_t begin = 0;
  for (size_t i = 0; i < bytes.size();) {
    const size_t at = i;
    const char32_t c = NextCodePoint(bytes, &i);
    const bool is_break = (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 ||
                          c == 0x2028 || c == 0x2029;
    if (!is_break) continue;
    if (c == '\r' && i < bytes.size() && bytes[i] == '\n') ++i;
    HEADWAY_RETURN_IF_ERROR(pieces.Add(begin, keep ? i : at));
    begin = i;
  }
  if (begin < bytes.size()) HEADWAY_RETURN_IF_ERROR(pieces.Add(begin, bytes.size()));
  return pieces.Finish();
}

absl::StatusOr<Value> PartitionMethod(Runtime& runtime, const Value& self,
                                      const Arguments& arguments, bool from_right) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("partition", arguments, {"sep"}, 1));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* separator, bound.TextOr(0));
  if (separator->empty()) return TemplateError("empty separator");
  const MarkedText& text = Self(self);
  HEADWAY_RETURN_IF_ERROR(runtime.budget().Step(text.size()));
  size_t found = FindBytes(text.bytes(), separator->bytes(), 0);
  if (from_right) {
    HEADWAY_ASSIGN_OR_RETURN(found,
                             FindLast(runtime, text.bytes(), separator->bytes(), text.size()));
  }
  Pieces pieces(runtime, text);
  if (found != std::string::npos) {
    HEADWAY_RETURN_IF_ERROR(pieces.Add(0, found));
    HEADWAY_RETURN_IF_ERROR(pieces.Add(found, found + separator->size()));
    HEADWAY_RETURN_IF_ERROR(pieces.Add(found + separator->size(), text.size()));
  } else {
    const size_t end = from_right ? 0 : text.size();
    HEADWAY_RETURN_IF_ERROR(pieces.Add(0, end));
    HEADWAY_RETURN_IF_ERROR(pieces.Add(0, 0));
    HEADWAY_RETURN_IF_ERROR(pieces.Add(end, text.size()));
  }
  return pieces.Finish(List::Kind::kTuple);
}

absl::StatusOr<Value> StripMethod(Runtime& runtime, const Value& self, const Arguments& arguments,
                                  Side side) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("strip", arguments, {"chars"}));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* characters, bound.TextOr(0));
  const std::string_view set = characters->bytes();
  HEADWAY_RETURN_IF_ERROR(runtime.budget().Step(set.size() + Self(self).size()));
  return runtime.MakeString(Strip(Self(self), bound.has(0) ? &set : nullptr, side));
}

// The range of a text that the arguments `start` and `end` name (in characters), as bytes.
struct ByteRange {
  size_t begin, end;
};

absl::StatusOr<ByteRange> RangeOf(Runtime& runtime, const MarkedText& text, const Bound& bound,
                                  size_t start_index) {
  HEADWAY_RETURN_IF_ERROR(runtime.budget().Step(text.size()));
  if (!bound.has(start_index) && !bound.has(start_index + 1)) return ByteRange{0, text.size()};
  const auto length = static_cast<int64_t>(CountCharacters(text.bytes()));
  HEADWAY_ASSIGN_OR_RETURN(int64_t start, bound.IntOr(start_index, 0));
  HEADWAY_ASSIGN_OR_RETURN(int64_t end, bound.IntOr(start_index + 1, length));
  if (start < 0) start = std::max<int64_t>(start + length, 0);
  if (end < 0) end = std::max<int64_t>(end + length, 0);
  ByteRange range{CharacterOffset(text.bytes(), std::min(start, length)),
                  CharacterOffset(text.bytes(), std::min(end, length))};
  range.end = std::max(range.begin, range.end);
  return range;
}

absl::StatusOr<Value> AffixMethod(Runtime& runtime, const Value& self, const Arguments& arguments,
                                  bool at_end) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind(at_end ? "endswith" : "startswith",
                                                          arguments, {"affix", "start", "end"}, 1));
  HEADWAY_ASSIGN_OR_RETURN(const ByteRange range, RangeOf(runtime, Self(self), bound, 1));
  const std::string_view text =
      std::string_view(Self(self).bytes()).substr(range.begin, range.end - range.begin);
  const auto matches = [&](const Value& affix) -> absl::StatusOr<bool> {
    if (affix.is_undefined()) return UndefinedError(affix);
    if (!affix.is_string()) {
      return TemplateError(absl::StrCat(at_end ? "endswith" : "startswith",
                                        " first arg must be str or a tuple of str, not ",
                                        ToAbsl(affix.type_name())));
    }
    const std::string_view bytes = affix.string()->bytes();
    return at_end ? text.ends_with(bytes) : text.starts_with(bytes);
  };
  const List* tuple = bound[0]->list();
  if (tuple == nullptr || tuple->kind != List::Kind::kTuple) {
    HEADWAY_ASSIGN_OR_RETURN(const bool found, matches(*bound[0]));
    return Value(found);
  }
  for (const Value& affix : tuple->items) {
    HEADWAY_ASSIGN_OR_RETURN(const bool found, matches(affix));
    if (found) return Value(true);
  }
  return Value(false);
}

absl::StatusOr<Value> FindMethod(Runtime& runtime, const Value& self, const Arguments& arguments,
                                 bool from_right, bool must_exist) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("find", arguments, {"sub", "start", "end"}, 1));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* needle, bound.TextOr(0));
  HEADWAY_ASSIGN_OR_RETURN(const ByteRange range, RangeOf(runtime, Self(self), bound, 1));
  const std::string_view text = Self(self).bytes();
  const std::string_view part = text.substr(range.begin, range.end - range.begin);
  size_t found = FindBytes(part, needle->bytes(), 0);
  if (from_right) {
    HEADWAY_ASSIGN_OR_RETURN(found, FindLast(runtime, part, needle->bytes(), part.size()));
  }
  if (found == std::string_view::npos) {
    if (must_exist) return TemplateError("substring not found");
    return Value(Int{-1});
  }
  return Value(static_cast<Int>(CountCharacters(text.substr(0, range.begin + found))));
}

absl::StatusOr<Value> CountMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("count", arguments, {"sub", "start", "end"}, 1));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* needle, bound.TextOr(0));
  HEADWAY_ASSIGN_OR_RETURN(const ByteRange range, RangeOf(runtime, Self(self), bound, 1));
  const std::string_view part =
      std::string_view(Self(self).bytes()).substr(range.begin, range.end - range.begin);
  if (needle->empty()) return Value(static_cast<Int>(CountCharacters(part)) + 1);
  Int count = 0;
  for (size_t i = FindBytes(part, needle->bytes(), 0); i != std::string_view::npos;
       i = FindBytes(part, needle->bytes(), i + needle->size())) {
    ++count;
  }
  return Value(count);
}

absl::StatusOr<Value> ReplaceMethod(Runtime& runtime, const Value& self,
                                    const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("replace", arguments, {"old", "new", "count"}, 2));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* from, bound.TextOr(0));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* to, bound.TextOr(1));
  HEADWAY_ASSIGN_OR_RETURN(const int64_t count, bound.IntOr(2, -1));
  return Replace(runtime, Self(self), *from, *to, count);
}

absl::StatusOr<Value> JoinMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("join", arguments, {"iterable"}, 1));
  HEADWAY_ASSIGN_OR_RETURN(const auto items, Iterate(runtime, *bound[0]));
  TextBuilder builder(runtime);
  for (size_t i = 0; i < items->items.size(); ++i) {
    const Value& item = items->items[i];
    if (!item.is_string()) {
      return TemplateError(absl::StrCat("sequence item ", i, ": expected str instance, ",
                                        ToAbsl(item.type_name()), " found"));
    }
    if (i > 0) builder.Append(Self(self));
    builder.Append(*item.string());
  }
  return builder.Finish();
}

absl::StatusOr<Value> RemoveAffix(Runtime& runtime, const Value& self, const Arguments& arguments,
                                  bool at_end) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("removeprefix", arguments, {"affix"}, 1));
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* affix, bound.TextOr(0));
  const MarkedText& text = Self(self);
  const std::string_view bytes = text.bytes();
  HEADWAY_RETURN_IF_ERROR(runtime.budget().Step(affix->size()));
  if (at_end ? !bytes.ends_with(affix->bytes()) : !bytes.starts_with(affix->bytes())) return self;
  return runtime.MakeString(at_end ? text.Range(0, text.size() - affix->size())
                                   : text.Range(affix->size(), text.size()));
}

absl::StatusOr<Value> TitleMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("title", arguments, {}).status());
  const std::string_view bytes = Self(self).bytes();
  bool previous_cased = false;
  return MapCharacters(runtime, Self(self), [&](size_t begin, size_t end) {
    const char32_t c = CharacterAt(bytes, begin);
    const std::string mapped = previous_cased ? LowerOf(bytes, begin, end) : TitleOf(c);
    previous_cased = IsCased(c);
    return mapped;
  });
}

// Whether the text is not empty and `holds` for each character.
template <bool (*kHolds)(char32_t)>
absl::StatusOr<Value> AllMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("is", arguments, {}).status());
  const std::string_view bytes = Self(self).bytes();
  HEADWAY_RETURN_IF_ERROR(runtime.budget().Step(bytes.size()));
  for (size_t i = 0; i < bytes.size();) {
    if (!kHolds(NextCodePoint(bytes, &i))) return Value(false);
  }
  return Value(!bytes.empty());
}

bool IsLetterOrNumber(char32_t c) { return IsLetter(c) || IsNumeric(c); }
bool IsDigit(char32_t c) {
  return IsDecimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
}

// Whether there is a cased character, and none of the other case.
template <bool (*kOther)(char32_t)>
absl::StatusOr<Value> CaseMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("is", arguments, {}).status());
  const std::string_view bytes = Self(self).bytes();
  HEADWAY_RETURN_IF_ERROR(runtime.budget().Step(bytes.size()));
  bool any = false;
  for (size_t i = 0; i < bytes.size();) {
    const char32_t c = NextCodePoint(bytes, &i);
    if (kOther(c)) return Value(false);
    any = any || IsCased(c);
  }
  return Value(any);
}

// ljust, rjust, center.
absl::StatusOr<Value> PadMethod(Runtime& runtime, const Value& self, const Arguments& arguments,
                                Side text_side) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("justify", arguments, {"width", "fillchar"}, 1));
  HEADWAY_ASSIGN_OR_RETURN(const int64_t width, bound.IntOr(0, 0));
  const MarkedText space(" ", true);
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* fill, bound.TextOr(1, &space));
  if (CountCharacters(fill->bytes()) != 1) {
    return TemplateError("The fill character must be exactly one character long");
  }
  const MarkedText& text = Self(self);
  const auto length = static_cast<int64_t>(CountCharacters(text.bytes()));
  const int64_t missing = std::max<int64_t>(width - length, 0);
  if (static_cast<size_t>(missing) > runtime.budget().free_bytes()) {
    return runtime.budget().OutOfMemory();
  }
  // Python puts the odd one to the left when both numbers are odd.
  const int64_t before = text_side == Side::kLeft    ? 0
                         : text_side == Side::kRight ? missing
                                                     : missing / 2 + (missing & width & 1);
  TextBuilder builder(runtime);
  for (int64_t i = 0; i < before; ++i) builder.Append(*fill);
  builder.Append(text);
  for (int64_t i = before; i < missing; ++i) builder.Append(*fill);
  return builder.Finish();
}

template <absl::StatusOr<Value> (*kFunction)(Runtime&, const MarkedText&)>
absl::StatusOr<Value> Plain(Runtime& runtime, const Value& self, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("a method of str", arguments, {}).status());
  return kFunction(runtime, Self(self));
}

template <auto kFunction, auto... kFixed>
absl::StatusOr<Value> With(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return kFunction(runtime, self, arguments, kFixed...);
}

absl::StatusOr<Value> FormatMethod(Runtime& runtime, const Value& self,
                                   const Arguments& arguments) {
  return FormatBraces(runtime, Self(self), arguments);
}

}  // namespace

Method FindStringMethod(std::string_view name) {
  static const auto& methods = *new absl::flat_hash_map<std::string, Method>{
      {"capitalize", Plain<Capitalize>},
      {"center", With<PadMethod, Side::kBoth>},
      {"count", CountMethod},
      {"endswith", With<AffixMethod, true>},
      {"find", With<FindMethod, false, false>},
      {"format", FormatMethod},
      {"index", With<FindMethod, false, true>},
      {"isalnum", AllMethod<IsLetterOrNumber>},
      {"isalpha", AllMethod<IsLetter>},
      {"isdecimal", AllMethod<IsDecimal>},
      {"isdigit", AllMethod<IsDigit>},
      {"islower", CaseMethod<IsUppercase>},
      {"isnumeric", AllMethod<IsNumeric>},
      {"isspace", AllMethod<IsSpace>},
      {"isupper", CaseMethod<IsLowercase>},
      {"join", JoinMethod},
      {"ljust", With<PadMethod, Side::kLeft>},
      {"lower", Plain<ToLower>},
      {"lstrip", With<StripMethod, Side::kLeft>},
      {"partition", With<PartitionMethod, false>},
      {"removeprefix", With<RemoveAffix, false>},
      {"removesuffix", With<RemoveAffix, true>},
      {"replace", ReplaceMethod},
      {"rfind", With<FindMethod, true, false>},
      {"rindex", With<FindMethod, true, true>},
      {"rjust", With<PadMethod, Side::kRight>},
      {"rpartition", With<PartitionMethod, true>},
      {"rsplit", With<SplitMethod, true>},
      {"rstrip", With<StripMethod, Side::kRight>},
      {"split", With<SplitMethod, false>},
      {"splitlines", SplitLines},
      {"startswith", With<AffixMethod, false>},
      {"strip", With<StripMethod, Side::kBoth>},
      {"title", TitleMethod},
      {"upper", Plain<ToUpper>},
  };
  const auto it = methods.find(ToAbsl(name));
  return it == methods.end() ? nullptr : it->second;
}

MarkedText Strip(const MarkedText& text, const std::string_view* characters, Side side) {
  const std::string_view bytes = text.bytes();
  absl::flat_hash_set<uint32_t> set;
  if (characters != nullptr) {
    for (size_t i = 0; i < characters->size();) set.insert(NextCodePoint(*characters, &i));
  }
  const auto is_stripped = [&](size_t begin) {
    const char32_t c = CharacterAt(bytes, begin);
    return characters == nullptr ? IsSpace(c) : set.contains(c);
  };
  size_t begin = 0;
  size_t end = bytes.size();
  if (side != Side::kRight) {
    while (begin < end) {
      if (!is_stripped(begin)) break;
      begin += Utf8Length(bytes[begin]);
    }
  }
  if (side != Side::kLeft) {
    while (begin < end) {
      const size_t previous = PreviousCharacter(bytes, end);
      if (!is_stripped(previous)) break;
      end = previous;
    }
  }
  return text.Range(begin, end);
}

absl::StatusOr<Value> ToUpper(Runtime& runtime, const MarkedText& text) {
  return MapCharacters(runtime, text, [&](size_t begin, size_t end) {
    return UpperOf(CharacterAt(text.bytes(), begin));
  });
}

absl::StatusOr<Value> ToLower(Runtime& runtime, const MarkedText& text) {
  return MapCharacters(runtime, text,
                       [&](size_t begin, size_t end) { return LowerOf(text.bytes(), begin, end); });
}

absl::StatusOr<Value> Capitalize(Runtime& runtime, const MarkedText& text) {
  return MapCharacters(runtime, text, [&](size_t begin, size_t end) {
    return begin == 0 ? TitleOf(CharacterAt(text.bytes(), 0)) : LowerOf(text.bytes(), begin, end);
  });
}

absl::StatusOr<Value> Replace(Runtime& runtime, const MarkedText& text, const MarkedText& from,
                              const MarkedText& to, int64_t count) {
  TextBuilder builder(runtime);
  const std::string_view bytes = text.bytes();
  size_t done = 0;
  for (size_t i = 0; count != 0 && !builder.overflowed(); --count) {
    const size_t found = FindBytes(bytes, from.bytes(), i);
    if (found == std::string_view::npos) break;
    HEADWAY_RETURN_IF_ERROR(runtime.budget().Step());
    builder.AppendRange(text, done, found);
    builder.Append(to);
    done = found + from.size();
    i = done;
    if (from.empty()) {  // before each character, and at the end
      if (i == bytes.size()) break;
      i += Utf8Length(bytes[i]);
    }
  }
  builder.AppendRange(text, done, bytes.size());
  return builder.Finish();
}

void AppendLower(std::string_view text, std::string* out) {
  for (size_t i = 0; i < text.size();) {
    const size_t end = i + Utf8Length(text[i]);
    *out += LowerOf(text, i, end);
    i = end;
  }
}

}  // namespace headway::text::chat
