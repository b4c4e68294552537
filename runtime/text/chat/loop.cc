#include "runtime/text/chat/loop.h"

#include <functional>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/text/chat/arguments.h"
#include "runtime/text/chat/operators.h"

namespace headway::text::chat {
namespace {

// loop.cycle or loop.changed, holding on to its loop.
class LoopMethod : public Object {
 public:
  using Function = std::function<absl::StatusOr<Value>(Runtime&, const Arguments&)>;
  explicit LoopMethod(Function function) : function_(std::move(function)) {}
  std::string_view type_name() const override { return "method"; }
  bool callable() const override { return true; }
  absl::StatusOr<Value> Call(Runtime& runtime, const Arguments& arguments) override {
    return function_(runtime, arguments);
  }

 private:
  Function function_;
};

}  // namespace

void Loop::End() {
  node_ = nullptr;
  items_ = std::make_shared<const List>();
  last_changed_.reset();
}

absl::StatusOr<Value> Loop::Call(Runtime& runtime, const Arguments& arguments) {
  if (!callable()) return TemplateError("the loop is over, or has no 'recursive'");
  HEADWAY_ASSIGN_OR_RETURN(const Bound bound, Bound::Bind("loop", arguments, {"iterable"}, 1));
  return evaluator_->CallLoop(*node_, outer_, depth_ + 1, *bound[0]);
}

std::optional<Value> Loop::Attribute(std::string_view name) {
  const auto size = static_cast<Int>(items_->items.size());
  const auto index = static_cast<Int>(index_);
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(size - index);
  if (name == "revindex0") return Value(size - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == size);
  if (name == "length") return Value(size);
  if (name == "depth") return Value(Int{depth_} + 1);
  if (name == "depth0") return Value(Int{depth_});
  if (name == "previtem") {
    if (index == 0 || index > size) return Value::MakeUndefined("there is no previous item");
    return items_->items[index_ - 1];
  }
  if (name == "nextitem") {
    if (index + 1 >= size) return Value::MakeUndefined("there is no next item");
    return items_->items[index_ + 1];
  }
  if (name != "cycle" && name != "changed") return std::nullopt;
  const bool is_cycle = name == "cycle";
  return Value(std::shared_ptr<Object>(std::make_shared<LoopMethod>(
      [self = shared_from_this(), is_cycle](Runtime& runtime, const Arguments& arguments) {
        return is_cycle ? self->Cycle(arguments) : self->Changed(runtime, arguments);
      })));
}

absl::StatusOr<Value> Loop::Cycle(const Arguments& arguments) const {
  if (arguments.positional.empty()) return TemplateError("no items for cycling given");
  return arguments.positional[index_ % arguments.positional.size()];
}

absl::StatusOr<Value> Loop::Changed(Runtime& runtime, const Arguments& arguments) {
  bool changed = !last_changed_ || last_changed_->size() != arguments.positional.size();
  for (size_t i = 0; !changed && i < arguments.positional.size(); ++i) {
    HEADWAY_ASSIGN_OR_RETURN(const bool equal,
                             Equal(runtime, (*last_changed_)[i], arguments.positional[i]));
    changed = !equal;
  }
  // After its end a loop must not hold values: they might hold the loop.
  if (changed && node_ != nullptr) last_changed_ = arguments.positional;
  return Value(changed);
}

}  // namespace headway::text::chat
