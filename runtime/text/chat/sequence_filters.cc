// Filters that go through lists.
#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/text/chat/arguments.h"
#include "runtime/text/chat/filters.h"
#include "runtime/text/chat/operators.h"
#include "runtime/text/chat/printing.h"
#include "runtime/text/chat/string_methods.h"
#include "runtime/text/utf8.h"

namespace headway::text::chat {
namespace {

// item.a.b.0 for the attribute 'a.b.0'; `otherwise` (may be null) where something is undefined.
absl::StatusOr<Value> AttributeOf(Runtime& runtime, const Value& item, const Value& attribute,
                                  const Value* otherwise = nullptr) {
  Value value = item;
  if (const MarkedText* path = attribute.string()) {
    const std::string_view bytes = path->bytes();
    for (size_t begin = 0; begin <= bytes.size();) {
      HEADWAY_RETURN_IF_ERROR(runtime.budget().Step());
      const size_t end = std::min(bytes.find('.', begin), bytes.size());
      const std::string_view part = bytes.substr(begin, end - begin);
      const bool is_index =
          !part.empty() && part.size() < 10 &&
          std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
      const Value key = is_index ? Value(Int{std::stoi(std::string(part))}) : Value::Literal(part);
      HEADWAY_ASSIGN_OR_RETURN(value, GetItem(runtime, value, key));
      if (value.is_undefined() && otherwise != nullptr) return *otherwise;
      begin = end + 1;
    }
    return value;
  }
  HEADWAY_ASSIGN_OR_RETURN(value, GetItem(runtime, value, attribute));
  if (value.is_undefined() && otherwise != nullptr) return *otherwise;
  return value;
}

// What sorting and comparing look at: the attribute, without case unless wanted.
absl::StatusOr<Value> KeyOf(Runtime& runtime, const Value& item, const Value* attribute,
                            bool case_sensitive) {
  Value key = item;
  if (attribute != nullptr && !attribute->is_none()) {
    HEADWAY_ASSIGN_OR_RETURN(key, AttributeOf(runtime, item, *attribute));
  }
  if (case_sensitive || !key.is_string()) return key;
  return ToLower(runtime, *key.string());
}

using Keyed = std::pair<Value, Value>;  // key, item

absl::Status SortByKey(Runtime& runtime, std::vector<Keyed>* items, bool reverse) {
  absl::Status status;
  const auto less = [&](const Keyed& a, const Keyed& b) {
    if (!status.ok()) return false;
    const absl::StatusOr<int> order = Compare(runtime, a.first, b.first);
    if (!order.ok()) {
      status = order.status();
      return false;
    }
    return reverse ? *order > 0 : *order < 0;
  };
  std::stable_sort(items->begin(), items->end(), less);
  return status;
}

absl::StatusOr<std::vector<Keyed>> WithKeys(Runtime& runtime, const Value& input,
                                            const Value* attribute, bool case_sensitive) {
  HEADWAY_ASSIGN_OR_RETURN(const auto list, Iterate(runtime, input));
  std::vector<Keyed> keyed;
  for (const Value& item : list->items) {
    HEADWAY_RETURN_IF_ERROR(runtime.budget().Step());
    HEADWAY_ASSIGN_OR_RETURN(Value key, KeyOf(runtime, item, attribute, case_sensitive));
    keyed.emplace_back(std::move(key), item);
  }
  return keyed;
}

std::vector<Value> ItemsOf(std::vector<Keyed> keyed) {
  std::vector<Value> items;
  for (Keyed& each : keyed) items.push_back(std::move(each.second));
  return items;
}

absl::StatusOr<Value> First(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("first", arguments, {}).status());
  HEADWAY_ASSIGN_OR_RETURN(const auto list, Iterate(runtime, input));
  if (list->items.empty()) return Value::MakeUndefined("No first item, sequence was empty.");
  return list->items.front();
}

absl::StatusOr<Value> Last(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("last", arguments, {}).status());
  HEADWAY_ASSIGN_OR_RETURN(const auto list, Iterate(runtime, input));
  if (list->items.empty()) return Value::MakeUndefined("No last item, sequence was empty.");
  return list->items.back();
}

absl::StatusOr<Value> ToList(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("list", arguments, {}).status());
  HEADWAY_ASSIGN_OR_RETURN(const auto list, Iterate(runtime, input));
  return runtime.MakeList(list->items);
}

absl::StatusOr<Value> Reverse(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("reverse", arguments, {}).status());
  if (input.is_string()) {
    return GetSlice(runtime, input, std::nullopt, std::nullopt, Value(Int{-1}));
  }
  HEADWAY_ASSIGN_OR_RETURN(const auto list, Iterate(runtime, input));
  return runtime.MakeList(std::vector<Value>(list->items.rbegin(), list->items.rend()),
                          List::Kind::kGenerator);
}

absl::StatusOr<Value> Items(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_RETURN_IF_ERROR(Bound::Bind("items", arguments, {}).status());
  std::vector<Value> pairs;
  if (const Dict* dict = input.dict()) {
    for (const auto& [key, value] : dict->entries) {
      HEADWAY_ASSIGN_OR_RETURN(Value pair, runtime.MakeList({key, value}, List::Kind::kTuple));
      pairs.push_back(std::move(pair));
    }
  } else if (!input.is_undefined()) {
    return TemplateError("Can only get item pairs from a mapping.");
  }
  return runtime.MakeList(std::move(pairs), List::Kind::kGenerator);
}

absl::StatusOr<Value> Join(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("join", arguments, {"d", "attribute"}));
  MarkedText separator;
  if (bound[0] != nullptr) {
    HEADWAY_ASSIGN_OR_RETURN(separator, ToText(runtime, *bound[0]));
  }
  HEADWAY_ASSIGN_OR_RETURN(const auto list, Iterate(runtime, input));
  TextBuilder builder(runtime);
  bool first = true;
  for (const Value& item : list->items) {
    HEADWAY_RETURN_IF_ERROR(runtime.budget().Step());
    if (!first) builder.Append(separator);
    first = false;
    if (!bound.has(1)) {
      AppendStr(item, &builder);
      continue;
    }
    HEADWAY_ASSIGN_OR_RETURN(const Value value, AttributeOf(runtime, item, *bound[1]));
    AppendStr(value, &builder);
  }
  return builder.Finish();
}

absl::StatusOr<Value> Map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const auto list, Iterate(runtime, input));
  std::vector<Value> results;
  if (arguments.positional.empty()) {
    HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                             Bound::Bind("map", arguments, {"attribute", "default"}, 1));
    for (const Value& item : list->items) {
      HEADWAY_RETURN_IF_ERROR(runtime.budget().Step());
      HEADWAY_ASSIGN_OR_RETURN(Value result, AttributeOf(runtime, item, *bound[0], bound[1]));
      results.push_back(std::move(result));
    }
  } else {
    const MarkedText* name = arguments.positional[0].string();
    if (name == nullptr) return TemplateError("map needs the name of a filter");
    HEADWAY_ASSIGN_OR_RETURN(const Filter filter, FindFilter(name->bytes()));
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    for (const Value& item : list->items) {
      HEADWAY_RETURN_IF_ERROR(runtime.budget().Step());
      HEADWAY_ASSIGN_OR_RETURN(Value result, filter(runtime, item, rest));
      results.push_back(std::move(result));
    }
  }
  return runtime.MakeList(std::move(results), List::Kind::kGenerator);
}

// select, reject; with an attribute first: selectattr, rejectattr.
template <bool kByAttribute, bool kWanted>
absl::StatusOr<Value> Select(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const auto list, Iterate(runtime, input));
  Arguments rest = arguments;
  Value attribute;
  if (kByAttribute) {
    if (rest.positional.empty()) return TemplateError("selectattr needs the name of an attribute");
    attribute = rest.positional[0];
    rest.positional.erase(rest.positional.begin());
  }
  Test test = nullptr;
  if (!rest.positional.empty()) {
    const MarkedText* name = rest.positional[0].string();
    if (name == nullptr) return TemplateError("select needs the name of a test");
    HEADWAY_ASSIGN_OR_RETURN(test, FindTest(name->bytes()));
    rest.positional.erase(rest.positional.begin());
  }
  std::vector<Value> selected;
  for (const Value& item : list->items) {
    HEADWAY_RETURN_IF_ERROR(runtime.budget().Step());
    Value value = item;
    if (kByAttribute) {
      HEADWAY_ASSIGN_OR_RETURN(value, AttributeOf(runtime, item, attribute));
    }
    bool holds = value.Truth();
    if (test != nullptr) {
      HEADWAY_ASSIGN_OR_RETURN(holds, test(runtime, value, rest));
    }
    if (holds == kWanted) selected.push_back(item);
  }
  return runtime.MakeList(std::move(selected), List::Kind::kGenerator);
}

absl::StatusOr<Value> Sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(
      const Bound bound,
      Bound::Bind("sort", arguments, {"reverse", "case_sensitive", "attribute"}));
  HEADWAY_ASSIGN_OR_RETURN(std::vector<Keyed> keyed,
                           WithKeys(runtime, input, bound[2], bound.TruthOr(1, false)));
  HEADWAY_RETURN_IF_ERROR(SortByKey(runtime, &keyed, bound.TruthOr(0, false)));
  return runtime.MakeList(ItemsOf(std::move(keyed)));
}

absl::StatusOr<Value> Unique(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("unique", arguments, {"case_sensitive", "attribute"}));
  HEADWAY_ASSIGN_OR_RETURN(std::vector<Keyed> keyed,
                           WithKeys(runtime, input, bound[1], bound.TruthOr(0, false)));
  absl::flat_hash_set<std::string> seen;
  std::vector<Value> items;
  for (Keyed& each : keyed) {
    if (const MarkedText* text = each.first.string()) runtime.budget().Work(text->size());
    std::optional<std::string> hash = Dict::HashKey(each.first);
    if (!hash) {
      return TemplateError(absl::StrCat("unhashable type: '", ToAbsl(each.first.type_name()), "'"));
    }
    if (seen.insert(*std::move(hash)).second) items.push_back(std::move(each.second));
  }
  return runtime.MakeList(std::move(items), List::Kind::kGenerator);
}

template <int kSign>
absl::StatusOr<Value> Extreme(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("min", arguments, {"case_sensitive", "attribute"}));
  HEADWAY_ASSIGN_OR_RETURN(std::vector<Keyed> keyed,
                           WithKeys(runtime, input, bound[1], bound.TruthOr(0, false)));
  if (keyed.empty()) return Value::MakeUndefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  for (size_t i = 1; i < keyed.size(); ++i) {
    HEADWAY_ASSIGN_OR_RETURN(const int order, Compare(runtime, keyed[i].first, keyed[best].first));
    if (order * kSign > 0) best = i;
  }
  return keyed[best].second;
}

absl::StatusOr<Value> Sum(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("sum", arguments, {"attribute", "start"}));
  HEADWAY_ASSIGN_OR_RETURN(const auto list, Iterate(runtime, input));
  Value sum = bound[1] == nullptr ? Value(Int{0}) : *bound[1];
  for (const Value& item : list->items) {
    HEADWAY_RETURN_IF_ERROR(runtime.budget().Step());
    Value value = item;
    if (bound.has(0)) {
      HEADWAY_ASSIGN_OR_RETURN(value, AttributeOf(runtime, item, *bound[0]));
    }
    HEADWAY_ASSIGN_OR_RETURN(sum, Apply(runtime, Arithmetic::kAdd, sum, value));
  }
  return sum;
}

absl::StatusOr<Value> DictSort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("dictsort", arguments, {"case_sensitive", "by", "reverse"}));
  const MarkedText by_key("key", true);
  HEADWAY_ASSIGN_OR_RETURN(const MarkedText* by, bound.TextOr(1, &by_key));
  if (by->bytes() != "key" && by->bytes() != "value") {
    return TemplateError("dictsort(by) must be key or value");
  }
  const Dict* dict = input.dict();
  if (dict == nullptr) return TemplateError("dictsort needs a mapping");
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : dict->entries) {
    HEADWAY_ASSIGN_OR_RETURN(Value sort_key, KeyOf(runtime, by->bytes() == "key" ? key : value,
                                                   nullptr, bound.TruthOr(0, false)));
    HEADWAY_ASSIGN_OR_RETURN(Value pair, runtime.MakeList({key, value}, List::Kind::kTuple));
    keyed.emplace_back(std::move(sort_key), std::move(pair));
  }
  HEADWAY_RETURN_IF_ERROR(SortByKey(runtime, &keyed, bound.TruthOr(2, false)));
  return runtime.MakeList(ItemsOf(std::move(keyed)));
}

absl::StatusOr<Value> GroupBy(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(
      const Bound bound,
      Bound::Bind("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1));
  const bool case_sensitive = bound.TruthOr(2, false);
  HEADWAY_ASSIGN_OR_RETURN(const auto list, Iterate(runtime, input));
  std::vector<Keyed> keyed;
  for (const Value& item : list->items) {
    HEADWAY_RETURN_IF_ERROR(runtime.budget().Step());
    HEADWAY_ASSIGN_OR_RETURN(Value key, AttributeOf(runtime, item, *bound[0], bound[1]));
    HEADWAY_ASSIGN_OR_RETURN(key, KeyOf(runtime, key, nullptr, case_sensitive));
    keyed.emplace_back(std::move(key), item);
  }
  HEADWAY_RETURN_IF_ERROR(SortByKey(runtime, &keyed, false));
  std::vector<Value> groups;
  for (size_t begin = 0; begin < keyed.size();) {
    size_t end = begin;
    std::vector<Value> members;
    for (bool same = true; same;) {
      members.push_back(keyed[end].second);
      if (++end == keyed.size()) break;
      HEADWAY_ASSIGN_OR_RETURN(same, Equal(runtime, keyed[end].first, keyed[begin].first));
    }
    HEADWAY_ASSIGN_OR_RETURN(Value group, runtime.MakeList(std::move(members)));
    // The first member's own key, not the one without case.
    HEADWAY_ASSIGN_OR_RETURN(Value name,
                             AttributeOf(runtime, keyed[begin].second, *bound[0], bound[1]));
    HEADWAY_ASSIGN_OR_RETURN(
        Value pair, runtime.MakeList({std::move(name), std::move(group)}, List::Kind::kTuple));
    groups.push_back(std::move(pair));
    begin = end;
  }
  return runtime.MakeList(std::move(groups));
}

absl::StatusOr<Value> Batch(Runtime& runtime, const Value& input, const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("batch", arguments, {"linecount", "fill_with"}, 1));
  HEADWAY_ASSIGN_OR_RETURN(const int64_t count, bound.IntOr(0, 1));
  if (count < 1) return TemplateError("batch(linecount) must be at least 1");
  HEADWAY_ASSIGN_OR_RETURN(const auto list, Iterate(runtime, input));
  std::vector<Value> batches;
  for (size_t begin = 0; begin < list->items.size();) {
    const size_t left = list->items.size() - begin;
    const size_t size = std::min(left, static_cast<size_t>(count));
    std::vector<Value> batch(list->items.begin() + begin, list->items.begin() + begin + size);
    if (bound.has(1)) {
      const size_t missing = static_cast<size_t>(count) - size;
      if (missing > runtime.budget().free_bytes() / sizeof(Value)) {
        return runtime.budget().OutOfMemory();
      }
      batch.insert(batch.end(), missing, *bound[1]);
    }
    HEADWAY_ASSIGN_OR_RETURN(Value made, runtime.MakeList(std::move(batch)));
    batches.push_back(std::move(made));
    begin += size;
  }
  return runtime.MakeList(std::move(batches), List::Kind::kGenerator);
}

absl::StatusOr<Value> SliceFilter(Runtime& runtime, const Value& input,
                                  const Arguments& arguments) {
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::Bind("slice", arguments, {"slices", "fill_with"}, 1));
  HEADWAY_ASSIGN_OR_RETURN(const int64_t slices, bound.IntOr(0, 1));
  if (slices < 1 || slices > 100'000) {
    return TemplateError("slice(slices) must be from 1 to 100000");
  }
  HEADWAY_ASSIGN_OR_RETURN(const auto list, Iterate(runtime, input));
  const auto size = static_cast<int64_t>(list->items.size());
  const int64_t each = size / slices;
  const int64_t longer = size % slices;  // the first ones have one more
  std::vector<Value> columns;
  int64_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const int64_t end = begin + each + (i < longer ? 1 : 0);
    std::vector<Value> column(list->items.begin() + begin, list->items.begin() + end);
    if (bound.has(1) && i >= longer) column.push_back(*bound[1]);
    HEADWAY_ASSIGN_OR_RETURN(Value made, runtime.MakeList(std::move(column)));
    columns.push_back(std::move(made));
    begin = end;
  }
  return runtime.MakeList(std::move(columns), List::Kind::kGenerator);
}

}  // namespace

Filter FindSequenceFilter(std::string_view name) {
  static const auto& filters = *new absl::flat_hash_map<std::string, Filter>{
      {"batch", Batch},
      {"dictsort", DictSort},
      {"first", First},
      {"groupby", GroupBy},
      {"items", Items},
      {"join", Join},
      {"last", Last},
      {"list", ToList},
      {"map", Map},
      {"max", Extreme<1>},
      {"min", Extreme<-1>},
      {"reject", Select<false, false>},
      {"rejectattr", Select<true, false>},
      {"reverse", Reverse},
      {"select", Select<false, true>},
      {"selectattr", Select<true, true>},
      {"slice", SliceFilter},
      {"sort", Sort},
      {"sum", Sum},
      {"unique", Unique},
  };
  const auto it = filters.find(ToAbsl(name));
  return it == filters.end() ? nullptr : it->second;
}

}  // namespace headway::text::chat
